import CPostgres

extension PostgresConnection {
    /// The process id that the other side announced; nil when the connection is closed.
    ///
    /// A pooler announces one of its own: it differs from what `pg_backend_pid()` says.
    package var announcedProcessID: Int32? {
        link.announcedProcessID
    }
}

extension PostgresLink {
    var announcedProcessID: Int32? {
        guard let connection = unsafe connection else { return nil }
        return unsafe PQbackendPID(connection)
    }
}
