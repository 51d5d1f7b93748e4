/// The rule for a collapse id: it travels as a header, so it is printable ASCII of at most 64 bytes without outer spaces.
package enum CollapseID {
    /// APNs takes no more.
    package static let byteLimit = 64

    /// What is wrong with a collapse id, or nil.
    package static func problem(_ text: String) -> String? {
        guard !text.isEmpty else { return "must not be empty" }
        guard text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else {
            return "must be printable ASCII"
        }
        guard text.utf8.count <= byteLimit else {
            return "must be at most \(byteLimit) bytes, found \(text.utf8.count)"
        }
        guard text.utf8.first != 0x20, text.utf8.last != 0x20 else { return "must not begin or end with a space" }
        return nil
    }
}
