import CPostgres
import Glibc
import PushCore

// COPY … FROM STDIN in binary form.
extension PostgresLink {
    /// Sends the rows and returns how many the server took.
    func copyIn(
        _ statement: SQLStatement,
        _ rows: PostgresCopyBuffer,
        within time: Duration
    ) throws(PostgresError) -> Int {
        var exchange = Exchange("copy rows with", statementName: statement.name, within: time)
        let connection = unsafe try opened(exchange)
        guard unsafe PQsendQuery(connection, statement.text) == 1 else {
            throw unsafe brokenConnection(connection, exchange)
        }
        try flush(&exchange)
        guard let first = unsafe try nextResult(&exchange) else {
            throw closing(exchange.error(.connection, "the server gave no result"))
        }
        guard unsafe PQresultStatus(first) == PGRES_COPY_IN else {
            throw unsafe try refusal(of: first, &exchange)
        }
        unsafe PQclear(first)
        unsafe try sendRows(rows, connection, &exchange)
        let result = unsafe try lastResult(&exchange)
        return unsafe PostgresRows(result, statementName: statement.name).affectedCount
    }

    /// The error with which the server answered the COPY command itself.
    private func refusal(of first: OpaquePointer, _ exchange: inout Exchange) throws(PostgresError) -> PostgresError {
        let status = unsafe PQresultStatus(first)
        let failure = unsafe error(of: first, exchange)
        unsafe PQclear(first)
        if status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH {
            close()
            return exchange.error(.misuse, "the statement is no COPY FROM STDIN")
        }
        let isCommand = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
        while let rest = unsafe try nextResult(&exchange) { unsafe PQclear(rest) }
        settle(exchange)
        return isCommand ? exchange.error(.misuse, "the statement is no COPY FROM STDIN") : closing(failure)
    }

    /// Hands the data to libpq in pieces that its own buffer can be bounded by.
    ///
    /// The server does not look at a cancel request while it waits for data: to stop, the copy is ended with a failure.
    private func sendRows(
        _ rows: PostgresCopyBuffer,
        _ connection: OpaquePointer,
        _ exchange: inout Exchange
    ) throws(PostgresError) {
        unsafe try send(rows.sentBytes, connection, &exchange)
        unsafe try send(PostgresCopyBuffer.tail, connection, &exchange)
        let failure = exchange.stop == nil ? nil : "stopped by the client"
        while true {
            let ended = unsafe PQputCopyEnd(connection, failure)
            guard ended >= 0 else { throw unsafe brokenConnection(connection, exchange) }
            if ended == 1 { return }
            try flush(&exchange)
        }
    }

    private func send(_ data: [UInt8], _ connection: OpaquePointer, _ exchange: inout Exchange) throws(PostgresError) {
        var offset = 0
        while offset < data.count, exchange.stop == nil {
            let length = min(data.count - offset, 256 * 1024)
            let sent = unsafe data.withUnsafeBytes { bytes in
                let start = unsafe bytes.baseAddress?.advanced(by: offset).assumingMemoryBound(to: CChar.self)
                return unsafe PQputCopyData(connection, start, Int32(length))
            }
            guard sent >= 0 else { throw unsafe brokenConnection(connection, exchange) }
            if sent == 1 { offset += length }
            // Each piece goes out before the next one is taken.
            try flush(&exchange)
        }
    }
}
