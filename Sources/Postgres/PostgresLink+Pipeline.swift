import CPostgres
import Glibc
import PushCore

// Several statements in one round trip.
extension PostgresLink {
    /// Sends all statements at once and reads all their results. The first error aborts the rest.
    func pipeline(
        _ statements: [(SQLStatement, PostgresParameters)],
        within time: Duration
    ) throws(PostgresError) -> [PostgresRows] {
        guard !statements.isEmpty else { return [] }
        var exchange = Exchange("run a pipeline of", statementName: statements[0].0.name, within: time)
        let connection = unsafe try opened(exchange)
        var isSent = unsafe PQenterPipelineMode(connection) == 1
        for (statement, parameters) in statements where isSent {
            isSent = unsafe send(statement, parameters, connection)
        }
        guard isSent, unsafe PQpipelineSync(connection) == 1 else {
            // Half a pipeline cannot be taken back.
            let error = unsafe brokenConnection(connection, exchange)
            close()
            throw error
        }
        try flush(&exchange)
        var results = PipelineResults(statements.map(\.0.name))
        try read(&results, &exchange)
        settle(exchange)
        if unsafe self.connection != nil, unsafe PQexitPipelineMode(connection) != 1 { close() }
        return try results.finished(closing)
    }

    /// Each statement yields one result and a nil; the end of all is a result of its own.
    private func read(_ results: inout PipelineResults, _ exchange: inout Exchange) throws(PostgresError) {
        while true {
            guard let result = unsafe try nextResult(&exchange) else {
                results.advance()
                guard isOpen else { return }
                continue
            }
            switch unsafe PQresultStatus(result) {
            case PGRES_PIPELINE_SYNC:
                unsafe PQclear(result)
                return
            case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
                unsafe results.rows.append(PostgresRows(result, statementName: results.currentName))
            case PGRES_PIPELINE_ABORTED:
                unsafe PQclear(result)
            default:
                if results.failure == nil {
                    results.failure = unsafe error(of: result, exchange.naming(results.currentName))
                }
                unsafe PQclear(result)
                guard isOpen else { return }
            }
        }
    }
}

/// What a pipeline has answered so far.
private struct PipelineResults {
    private let names: [String]
    private var position = 0
    var rows: [PostgresRows] = []
    var failure: PostgresError?

    init(_ names: [String]) {
        self.names = names
        rows.reserveCapacity(names.count)
    }

    /// The name of the statement whose result comes next.
    var currentName: String { names[min(position, names.count - 1)] }

    mutating func advance() { position += 1 }

    func finished(_ closing: (PostgresError) -> PostgresError) throws(PostgresError) -> [PostgresRows] {
        if let failure { throw closing(failure) }
        guard rows.count == names.count else {
            throw closing(
                PostgresError(
                    .connection,
                    activity: "run \(currentName)",
                    message: "the server answered \(rows.count) of \(names.count) statements of the pipeline",
                    statementName: currentName
                )
            )
        }
        return rows
    }
}
