import PushCore

/// A statement of a test.
func sql(_ text: String) -> SQLStatement {
    SQLStatement(name: "test", text: text)
}
