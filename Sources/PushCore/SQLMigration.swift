/// One step of the schema: a file of `sql/migrations`, several statements, applied in one transaction.
package struct SQLMigration: Sendable {
    /// Its place in the order, counted from 1 without gaps.
    package let number: Int32
    /// The file's name after the number, such as `create_schema`.
    package let name: String
    /// The script.
    package let text: String

    package init(number: Int32, name: String, text: String) {
        self.number = number
        self.name = name
        self.text = text
    }

    /// Whether binaries that do not know this step must stop: line one is `-- breaking`.
    package var isBreaking: Bool {
        text.prefix { $0 != "\n" } == "-- breaking"
    }
}
