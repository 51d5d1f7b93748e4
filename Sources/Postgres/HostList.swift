import CPostgres

/// A host of a connection string that names several; empty parts are left to libpq's defaults.
struct PostgresHost: Equatable {
    var host = ""
    var address = ""
    var port = ""
}

/// Takes the hosts out of a connection string, so that each can be given its own time.
///
/// libpq's non-blocking connect would wait for the first silent host for as long as the kernel does.
enum HostList {
    /// The hosts in order; one entry with empty parts when the string names none.
    static func parse(_ connectionString: String) throws(PostgresError) -> [PostgresHost] {
        var message: UnsafeMutablePointer<CChar>?
        guard let options = unsafe PQconninfoParse(connectionString, &message) else {
            // libpq quotes the string in its message, and with it perhaps the password: its words are not repeated.
            unsafe PQfreemem(message)
            throw PostgresError(
                .configuration,
                activity: "read the connection string",
                message: "it is neither key=value pairs nor a URI that begins with postgresql://"
            )
        }
        defer { unsafe PQconninfoFree(options) }
        var values: [String: String] = [:]
        var option = unsafe options
        while let keyword = unsafe option.pointee.keyword {
            if let value = unsafe option.pointee.val {
                unsafe values[String(cString: keyword)] = unsafe String(cString: value)
            }
            unsafe option = unsafe option.advanced(by: 1)
        }
        return try combine(
            hosts: parts(values["host"]),
            addresses: parts(values["hostaddr"]),
            ports: parts(values["port"])
        )
    }

    /// One port goes for all hosts; otherwise the lists run in step, as libpq demands.
    private static func combine(
        hosts: [String],
        addresses: [String],
        ports: [String]
    ) throws(PostgresError) -> [PostgresHost] {
        let count = max(hosts.count, addresses.count, 1)
        let fits =
            (hosts.isEmpty || hosts.count == count) && (addresses.isEmpty || addresses.count == count)
            && (ports.count <= 1 || ports.count == count)
        guard fits, count == 1 || !(hosts + addresses).contains("") else {
            throw PostgresError(
                .configuration,
                activity: "read the connection string",
                message: "host, hostaddr and port must name equally many entries (or one port), none of them empty"
            )
        }
        return (0..<count).map { position in
            PostgresHost(
                host: hosts.indices.contains(position) ? hosts[position] : "",
                address: addresses.indices.contains(position) ? addresses[position] : "",
                port: ports.count == 1 ? ports[0] : ports.indices.contains(position) ? ports[position] : ""
            )
        }
    }

    private static func parts(_ list: String?) -> [String] {
        guard let list, !list.isEmpty else { return [] }
        return list.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    }
}
