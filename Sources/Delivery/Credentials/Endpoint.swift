/// Where requests go: host, port and path of an https URL.
struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    let host: String
    let port: UInt16
    /// Begins with `/`.
    let path: String

    init(host: String, port: UInt16 = 443, path: String = "/") {
        self.host = host
        self.port = port
        self.path = path
    }

    /// Reads `https://HOST[:PORT][/PATH]`; an IPv6 address stands in brackets. Nil for anything else.
    init?(url: String) {
        let scheme = "https://"
        guard url.lowercased().hasPrefix(scheme) else { return nil }
        let rest = url.dropFirst(scheme.count)
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<slash]
        let end = authority.hasPrefix("[") ? authority.firstIndex(of: "]").map(authority.index(after:)) : nil
        let colon = authority[(end ?? authority.startIndex)...].firstIndex(of: ":") ?? authority.endIndex
        let host = authority[..<colon].filter { $0 != "[" && $0 != "]" }
        guard !host.isEmpty, !host.contains("@") else { return nil }
        var port: UInt16 = 443
        if colon != authority.endIndex {
            guard let number = UInt16(authority[authority.index(after: colon)...]), number > 0 else { return nil }
            port = number
        }
        self.init(host: String(host), port: port, path: slash == rest.endIndex ? "/" : String(rest[slash...]))
    }

    var description: String { "\(host):\(port)" }

    static let apnsProduction = Endpoint(host: "api.push.apple.com")
    static let apnsSandbox = Endpoint(host: "api.sandbox.push.apple.com")
    static let fcm = Endpoint(host: "fcm.googleapis.com")
}
