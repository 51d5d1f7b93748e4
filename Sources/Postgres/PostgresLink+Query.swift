import CPostgres
import Glibc
import PushCore

// Statements, one at a time.
extension PostgresLink {
    /// Runs one statement in the extended protocol, with binary parameters and rows.
    func query(
        _ statement: SQLStatement,
        _ parameters: PostgresParameters,
        within time: Duration
    ) throws(PostgresError) -> PostgresRows {
        var exchange = Exchange("run", statementName: statement.name, within: time)
        let connection = unsafe try opened(exchange)
        guard unsafe send(statement, parameters, connection) else {
            throw unsafe brokenConnection(connection, exchange)
        }
        let result = unsafe try lastResult(&exchange)
        return unsafe PostgresRows(result, statementName: statement.name)
    }

    /// Runs several statements in the simple protocol; the first error ends it.
    func execute(
        _ script: String,
        _ verb: StaticString,
        named name: String? = nil,
        within time: Duration
    ) throws(PostgresError) -> PostgresRows {
        var exchange = Exchange(verb, statementName: name, within: time)
        let connection = unsafe try opened(exchange)
        guard unsafe PQsendQuery(connection, script) == 1 else { throw unsafe brokenConnection(connection, exchange) }
        let result = unsafe try lastResult(&exchange)
        return unsafe PostgresRows(result, statementName: exchange.activity)
    }

    /// Hands a statement to libpq, unnamed: a pooler may give the next transaction to another server connection.
    func send(_ statement: SQLStatement, _ parameters: PostgresParameters, _ connection: OpaquePointer) -> Bool {
        unsafe parameters.withPointers { parameters in
            unsafe PQsendQueryParams(
                connection,
                statement.text,
                parameters.count,
                parameters.types,
                parameters.values,
                parameters.lengths,
                parameters.formats,
                1
            ) == 1
        }
    }

    /// Sends what libpq holds, reads all results, and returns the last one; throws if one of them is an error.
    func lastResult(_ exchange: inout Exchange) throws(PostgresError) -> OpaquePointer {
        try flush(&exchange)
        var last: OpaquePointer?
        var failure: PostgresError?
        while let result = unsafe try nextResult(&exchange) {
            switch unsafe PQresultStatus(result) {
            case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
                unsafe PQclear(last)
                unsafe last = unsafe result
            case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH:
                unsafe PQclear(result)
                unsafe PQclear(last)
                close()
                throw exchange.error(.misuse, "only copyIn can run a COPY")
            default:
                if failure == nil { failure = unsafe error(of: result, exchange) }
                unsafe PQclear(result)
            }
        }
        settle(exchange)
        if let failure {
            unsafe PQclear(last)
            throw closing(failure)
        }
        guard let last = unsafe last else { throw closing(exchange.error(.connection, "the server gave no result")) }
        return unsafe last
    }

    /// Sends what libpq holds. Reads meanwhile, so that a server that waits for us to read cannot block us.
    func flush(_ exchange: inout Exchange) throws(PostgresError) {
        while true {
            let connection = unsafe try opened(exchange)
            let state = unsafe PQflush(connection)
            if state == 0 { return }
            // A failed write is reported by the read that follows, with the server's last words.
            if state < 0 { return }
            let ready = try wait(for: POLLIN | POLLOUT, &exchange)
            if ready & POLLIN != 0, unsafe PQconsumeInput(connection) == 0 { return }
        }
    }

    /// The next result of the statement; nil after the last one.
    func nextResult(_ exchange: inout Exchange) throws(PostgresError) -> OpaquePointer? {
        let connection = unsafe try opened(exchange)
        while unsafe PQisBusy(connection) == 1 {
            _ = try wait(for: POLLIN, &exchange)
            // On a broken connection PQgetResult returns the error at once.
            if unsafe PQconsumeInput(connection) == 0 { break }
        }
        return unsafe PQgetResult(connection)
    }

    /// The error of a call that libpq refused; the connection is closed if it is broken.
    func brokenConnection(_ connection: OpaquePointer, _ exchange: Exchange) -> PostgresError {
        let message = unsafe lastMessage(connection)
        guard !isOpen else { return exchange.error(.misuse, message) }
        return closing(exchange.error(.connection, message))
    }

    /// Closes the connection if the error, or its state, asks for it.
    func closing(_ error: PostgresError) -> PostgresError {
        if error.closesConnection || !isOpen { close() }
        return error
    }
}

/// The fields of an error that we read.
enum ErrorField: UInt8 {
    case severity = 0x56
    case sqlState = 0x43
    case message = 0x4D
    case detail = 0x44
    case hint = 0x48
    case constraint = 0x6E
}

func errorField(_ result: OpaquePointer, _ field: ErrorField) -> String? {
    guard let text = unsafe PQresultErrorField(result, Int32(field.rawValue)) else { return nil }
    return unsafe String(cString: text)
}

extension PostgresLink {
    /// What the server, or libpq in its place, said about a failure.
    func error(of result: OpaquePointer, _ exchange: Exchange) -> PostgresError {
        guard let state = unsafe errorField(result, .sqlState) else {
            let message = unsafe String(cString: PQresultErrorMessage(result)).onOneLine
            return exchange.error(.connection, message)
        }
        if state == SQLState.queryCanceled.text, let stop = exchange.stop {
            return exchange.stopError(stop, cutOff: false)
        }
        return PostgresError(
            .server(SQLState(state)),
            activity: exchange.activity,
            message: unsafe errorField(result, .message) ?? "no message",
            detail: unsafe errorField(result, .detail),
            hint: unsafe errorField(result, .hint),
            constraint: unsafe errorField(result, .constraint),
            statementName: exchange.statementName
        )
    }
}
