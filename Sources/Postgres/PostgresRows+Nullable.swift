package import PushCore

// Readers of columns that may be null.
extension PostgresRows {
    package func int16OrNil(_ row: Int, _ column: Int) throws(PostgresError) -> Int16? {
        isNull(row, column) ? nil : try int16(row, column)
    }

    package func int32OrNil(_ row: Int, _ column: Int) throws(PostgresError) -> Int32? {
        isNull(row, column) ? nil : try int32(row, column)
    }

    package func int64OrNil(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
        isNull(row, column) ? nil : try int64(row, column)
    }

    package func boolOrNil(_ row: Int, _ column: Int) throws(PostgresError) -> Bool? {
        isNull(row, column) ? nil : try bool(row, column)
    }

    package func doubleOrNil(_ row: Int, _ column: Int) throws(PostgresError) -> Double? {
        isNull(row, column) ? nil : try double(row, column)
    }

    package func uuidOrNil(_ row: Int, _ column: Int) throws(PostgresError) -> UUIDValue? {
        isNull(row, column) ? nil : try uuid(row, column)
    }

    package func timestampOrNil(_ row: Int, _ column: Int) throws(PostgresError) -> WallClock.Instant? {
        isNull(row, column) ? nil : try timestamp(row, column)
    }

    package func textOrNil(_ row: Int, _ column: Int) throws(PostgresError) -> String? {
        isNull(row, column) ? nil : try text(row, column)
    }

    package func bytesOrNil(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8]? {
        isNull(row, column) ? nil : try bytes(row, column)
    }
}
