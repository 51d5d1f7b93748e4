import Postgres
import Testing

@Suite struct ErrorTests {
    @Test(
        arguments: [
            ("40001", true, false), ("40P01", true, false), ("55P03", true, false), ("53300", true, false),
            ("57014", true, false), ("08006", true, true), ("08P01", true, true), ("57P01", true, true),
            ("57P02", true, true), ("57P03", true, true), ("25006", true, true), ("23505", false, false),
            ("42P01", false, false), ("22P02", false, false), ("P0001", false, false),
        ] as [(SQLState, Bool, Bool)]
    )
    func `server errors are classified`(state: SQLState, isRetryable: Bool, closesConnection: Bool) {
        let error = PostgresError(.server(state), activity: "test", message: "m")
        #expect(error.isRetryable == isRetryable)
        #expect(error.closesConnection == closesConnection)
    }

    @Test(
        arguments: [
            (.connection, true, true), (.deadline, true, false), (.poolExhausted, true, false),
            (.commitUncertain, false, true), (.transactionAborted, false, false), (.cancelled, false, false),
            (.decoding, false, false), (.misuse, false, false), (.schema, false, false),
        ] as [(PostgresError.Code, Bool, Bool)]
    )
    func `errors of our own are classified`(code: PostgresError.Code, isRetryable: Bool, closesConnection: Bool) {
        let error = PostgresError(code, activity: "test", message: "m")
        #expect(error.isRetryable == isRetryable)
        #expect(error.closesConnection == closesConnection)
    }

    @Test func `the text says what was done, what happened and what to do`() {
        let error = PostgresError(
            .server("25006"),
            activity: "run delivery_claim_batches",
            message: "cannot execute UPDATE in a read-only transaction",
            detail: "a secret"
        )
        #expect(
            error.description
                == "PostgreSQL: could not run delivery_claim_batches (server 25006): cannot execute UPDATE in a "
                + "read-only transaction. The server is read-only: it will be left for the one that accepts writes"
        )
    }

    @Test func `a quoted value of a data exception is left out`() {
        let error = PostgresError(
            .server("22P02"),
            activity: "run x",
            message: #"invalid input syntax for type uuid: "a secret" (whole)"#
        )
        #expect(error.description.contains("secret") == false)
        #expect(error.description.contains(#"type uuid: "…" (whole)"#))
        #expect(error.message.contains("secret"))
    }
}
