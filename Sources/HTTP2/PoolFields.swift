// Fields that a pool adds to all its requests, such as `authorization`. Replaced as a whole, never changed.
final class PoolFields {
    struct Field: Sendable {
        let name: [UInt8]
        let value: [UInt8]
        // False for what no table may hold.
        let isIndexed: Bool
    }

    let authority: [UInt8]
    let fields: [Field]

    init(authority: String) {
        self.authority = Array(authority.utf8)
        fields = []
    }

    private init(_ former: PoolFields, with field: Field) {
        authority = former.authority
        fields = former.fields.filter { $0.name != field.name } + [field]
    }

    func with(_ field: Field) -> PoolFields {
        PoolFields(self, with: field)
    }
}
