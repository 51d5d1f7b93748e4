package import PushCore

extension SQLText {
    /// The schema, step by step in order: each file of `sql/migrations`.
    ///
    /// A name that begins with a digit has an underscore in its place.
    package static let migrations: [SQLMigration] = [
        migration("0001_create_tables", PackageResources._001_create_tables_sql),
        migration("0002_create_checks", PackageResources._002_create_checks_sql),
        migration("0003_check_content", PackageResources._003_check_content_sql),
        migration("0004_check_overrides", PackageResources._004_check_overrides_sql),
        migration("0005_measure_payloads", PackageResources._005_measure_payloads_sql),
        migration("0006_create_filters", PackageResources._006_create_filters_sql),
        migration("0007_check_jobs", PackageResources._007_check_jobs_sql),
        migration("0008_create_views", PackageResources._008_create_views_sql),
        migration("0009_create_control", PackageResources._009_create_control_sql),
        migration("0010_register_devices", PackageResources._010_register_devices_sql),
        migration("0011_create_freeze", PackageResources._011_create_freeze_sql),
        migration("0012_create_publish", PackageResources._012_create_publish_sql),
        migration("0013_create_scheduler", PackageResources._013_create_scheduler_sql),
        migration("0014_create_preview", PackageResources._014_create_preview_sql),
        migration("0015_judge_tokens", PackageResources._015_judge_tokens_sql),
        migration("0016_grant_roles", PackageResources._016_grant_roles_sql),
        migration("0017_create_delivery", PackageResources._017_create_delivery_sql),
        migration("0018_check_values", PackageResources._018_check_values_sql),
        migration("0019_skip_page_statistics", PackageResources._019_skip_page_statistics_sql),
        migration("0020_spare_checks", PackageResources._020_spare_checks_sql),
    ]

    /// Tells a listener which server process answers. Returns one row: `process_id` integer.
    package static let listenerReadProcessID = statement(
        "listener_read_process_id",
        PackageResources.listener_read_process_id_sql
    )

    /// What the migrator itself runs.
    package static let migratorStatements = MigratorStatements(
        lock: statement("migrator_lock", PackageResources.migrator_lock_sql),
        limitLockWaits: statement("migrator_limit_lock_waits", PackageResources.migrator_limit_lock_waits_sql),
        createSchema: statement("migrator_create_schema", PackageResources.migrator_create_schema_sql),
        createVersionTable: statement(
            "migrator_create_version_table",
            PackageResources.migrator_create_version_table_sql
        ),
        readVersions: statement("migrator_read_versions", PackageResources.migrator_read_versions_sql),
        insertVersion: statement("migrator_insert_version", PackageResources.migrator_insert_version_sql)
    )

    /// A file's name is its number in four digits, an underscore, and its name.
    private static func migration(_ fileName: StaticString, _ text: StaticString) -> SQLMigration {
        let parts = "\(fileName)".split(separator: "_", maxSplits: 1)
        guard parts.count == 2, let number = Int32(parts[0]) else {
            preconditionFailure("\(fileName) is no name for a migration")
        }
        return SQLMigration(number: number, name: String(parts[1]), text: "\(text)")
    }
}
