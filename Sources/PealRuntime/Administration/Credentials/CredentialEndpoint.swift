/// The address of another host in place of a provider's own.
package enum CredentialEndpoint {
    /// Checks an address, `https://HOST` or `https://HOST:PORT`, and returns it without a slash at its end.
    ///
    /// Throws status 4 that says what was expected.
    package static func checked(
        _ text: String,
        named name: String,
        allowsPath: Bool = false
    ) throws(CommandError) -> String {
        let scheme = "https://"
        guard text.hasPrefix(scheme) else {
            throw refusal(text, name, "it must begin with https://, as both providers speak HTTP/2 over TLS alone")
        }
        var rest = text.dropFirst(scheme.count)
        if let slash = rest.firstIndex(of: "/") {
            if !allowsPath, rest[slash...] != "/" { throw refusal(text, name, "it may have no path") }
            rest = rest[..<slash]
        }
        guard let (host, port) = split(rest), !host.isEmpty, host.utf8.allSatisfy(isHostByte) else {
            throw refusal(text, name, "it must be https://HOST or https://HOST:PORT")
        }
        if let port, UInt16(port).map({ $0 > 0 }) != true { throw refusal(text, name, "its port must be 1 to 65535") }
        return allowsPath ? text : scheme + rest
    }

    /// Host and port; an IPv6 address stands in brackets.
    private static func split(_ text: Substring) -> (host: Substring, port: Substring?)? {
        if text.first == "[" {
            guard let close = text.firstIndex(of: "]") else { return nil }
            let after = text[text.index(after: close)...]
            if after.isEmpty { return (text, nil) }
            return after.first == ":" ? (text[...close], after.dropFirst()) : nil
        }
        guard let colon = text.firstIndex(of: ":") else { return (text, nil) }
        return (text[..<colon], text[text.index(after: colon)...])
    }

    private static func isHostByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"),
            UInt8(ascii: ":"), UInt8(ascii: "["), UInt8(ascii: "]"):
            true
        default: false
        }
    }

    private static func refusal(_ text: String, _ name: String, _ expectation: String) -> CommandError {
        CommandError(.refused, "'\(text)' cannot be used", at: name, advice: expectation)
    }
}
