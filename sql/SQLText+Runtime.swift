package import PushCore

// The statements of `peal up`.
extension SQLText {
    /// Whether the private server has the database `peal`.
    package static let runtimeFindDatabase = statement(
        "runtime_find_database",
        PackageResources.runtime_find_database_sql
    )

    /// Makes the database `peal`.
    package static let runtimeCreateDatabase = statement(
        "runtime_create_database",
        PackageResources.runtime_create_database_sql
    )
}
