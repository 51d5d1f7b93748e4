/// A statement of `sql/queries`, with the file name that errors and metrics call it by.
package struct SQLStatement: Sendable {
    /// The file's name without its extension, such as `delivery_claim_batches`.
    package let name: String
    /// The text, one statement, with `$1` … `$n` for parameters.
    package let text: String

    package init(name: String, text: String) {
        self.name = name
        self.text = text
    }
}
