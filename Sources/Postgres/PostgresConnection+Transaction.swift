package import PushCore

/// How a transaction behaves.
package struct TransactionOptions: Sendable {
    /// What the transaction sees of others.
    package enum Isolation: String, Sendable {
        case readCommitted = "READ COMMITTED"
        case repeatableRead = "REPEATABLE READ"
        case serializable = "SERIALIZABLE"
    }

    package var isolation: Isolation
    /// Whether COMMIT returns before the log is on disk: a crash of the server may lose it, whole.
    package var commitsAsynchronously: Bool
    /// How long the server waits for the next statement before it undoes the transaction and closes the connection.
    ///
    /// A process that was stopped, or a machine that sleeps, would otherwise hold its locks for as long as it does.
    /// Below every lease, so that a batch is free when its lease ends. 1 millisecond or more.
    package var idleLimit: Duration

    package init(
        isolation: Isolation = .readCommitted,
        commitsAsynchronously: Bool = false,
        idleLimit: Duration = .seconds(5)
    ) {
        self.isolation = isolation
        self.commitsAsynchronously = commitsAsynchronously
        self.idleLimit = idleLimit
    }

    // One message: all of it costs one round trip, and nothing of it outlives the transaction, whoever pools us.
    fileprivate var beginScript: String {
        var script = "BEGIN ISOLATION LEVEL \(isolation.rawValue)"
        script += "; SET LOCAL idle_in_transaction_session_timeout = \(idleLimit.wholeMillisecondsRoundedUp)"
        if commitsAsynchronously { script += "; SET LOCAL synchronous_commit = off" }
        return script
    }
}

extension PostgresConnection {
    /// Runs `body` in a transaction that always ends: COMMIT when it returns, ROLLBACK when it throws.
    ///
    /// `body` runs on the connection's thread. If it let a failed statement pass, this throws `.transactionAborted`;
    /// if the connection breaks during COMMIT, `.commitUncertain`.
    /// Nor may `body` keep the server waiting for longer than the options allow: the connection is lost then.
    @discardableResult
    package func transaction<Value: Sendable>(
        _ options: TransactionOptions = TransactionOptions(),
        _ body: @Sendable (isolated PostgresConnection) async throws -> Value
    ) async throws -> Value {
        guard !isTransactionOpen else {
            throw PostgresError(.misuse, activity: "begin a transaction", message: "the connection is in one already")
        }
        let time = configuration.statementDeadline
        isTransactionOpen = true
        defer { isTransactionOpen = false }
        let value: Value
        do {
            // When this is stopped or refused in the middle, the transaction may have begun all the same.
            _ = try await interruptible { link throws(PostgresError) in
                try link.execute(options.beginScript, "begin a transaction", within: time)
            }
            value = try await body(self)
        } catch {
            rollBack()
            throw error
        }
        try commit()
        return value
    }

    /// A connection that cannot even roll back is closed, and the server rolls back by itself.
    private func rollBack() {
        let time = configuration.cancelGrace
        uninterrupted { link in
            guard link.isOpen, link.isInTransaction else { return }
            do throws(PostgresError) {
                _ = try link.execute("ROLLBACK", "roll back", within: time)
            } catch {
                link.close()
            }
        }
    }

    private func commit() throws(PostgresError) {
        let time = configuration.statementDeadline
        let result = try uninterrupted { link throws(PostgresError) in
            guard link.isOpen else {
                throw PostgresError(.connection, activity: "commit", message: "the connection broke before")
            }
            do throws(PostgresError) {
                return try link.execute("COMMIT", "commit", within: time)
            } catch {
                guard !link.isOpen else { throw error }
                throw PostgresError(.commitUncertain, activity: "commit", message: error.message)
            }
        }
        guard result.commandTag != "COMMIT" else { return }
        throw PostgresError(
            .transactionAborted,
            activity: "commit",
            message: "a statement in it had failed, so the server rolled it back"
        )
    }
}

extension PostgresConnection {
    /// Runs several statements in one round trip. Outside of `transaction` they are one transaction of their own.
    ///
    /// The first error undoes and skips the others, and names the statement that failed.
    package func pipeline(
        _ statements: [(SQLStatement, PostgresParameters)],
        deadline: Duration? = nil
    ) async throws(PostgresError) -> [PostgresRows] {
        let time = deadline ?? configuration.statementDeadline
        return try await interruptible { link throws(PostgresError) in
            try link.pipeline(statements, within: time)
        }
    }

    /// Copies rows in with a `COPY … FROM STDIN (FORMAT binary)`, and returns how many the server took.
    ///
    /// In PostgreSQL 15 a COPY of 250 rows or fewer, or of 5,000 or more, costs the least per row.
    @discardableResult
    package func copyIn(
        _ statement: SQLStatement,
        rows: PostgresCopyBuffer,
        deadline: Duration? = nil
    ) async throws(PostgresError) -> Int {
        let time = deadline ?? configuration.statementDeadline
        return try await interruptible { link throws(PostgresError) in
            try link.copyIn(statement, rows, within: time)
        }
    }
}
