package import PushCore

// The statements of the `peal` command.
extension SQLText {
    /// Says when the first and the last result of a job were recorded.
    package static let adminBoundResults = statement("admin_bound_results", PackageResources.admin_bound_results_sql)

    /// Cancels a job.
    package static let adminCancelJob = statement("admin_cancel_job", PackageResources.admin_cancel_job_sql)

    /// Lists the jobs whose count does not add up.
    package static let adminCheckAccounting = statement(
        "admin_check_accounting",
        PackageResources.admin_check_accounting_sql
    )

    /// Adds an app.
    package static let adminCreateApp = statement("admin_create_app", PackageResources.admin_create_app_sql)

    /// Describes the state of the schema for the doctor.
    package static let adminDescribeSchema = statement(
        "admin_describe_schema",
        PackageResources.admin_describe_schema_sql
    )

    /// Describes the server for the doctor.
    package static let adminDescribeServer = statement(
        "admin_describe_server",
        PackageResources.admin_describe_server_sql
    )

    /// Finds an app by its slug.
    package static let adminFindApp = statement("admin_find_app", PackageResources.admin_find_app_sql)

    /// Finds the job that has an idempotency key.
    package static let adminFindKeyedJob = statement("admin_find_keyed_job", PackageResources.admin_find_keyed_job_sql)

    /// Lists credentials under which words about dead tokens are held back.
    package static let adminHeldCredentials = statement(
        "admin_held_credentials",
        PackageResources.admin_held_credentials_sql
    )

    /// Gives a row the device of its installation where none holds its token.
    package static let adminImportAdoptInstallation = statement(
        "admin_import_adopt_installation",
        PackageResources.admin_import_adopt_installation_sql
    )

    /// Copies the rows of a chunk into the staging table.
    package static let adminImportCopy = statement("admin_import_copy", PackageResources.admin_import_copy_sql)

    /// Counts rows that bring an installation to another device.
    package static let adminImportCountMoved = statement(
        "admin_import_count_moved",
        PackageResources.admin_import_count_moved_sql
    )

    /// Takes moved installations off their old devices.
    package static let adminImportFreeInstallation = statement(
        "admin_import_free_installation",
        PackageResources.admin_import_free_installation_sql
    )

    /// Takes moved VoIP tokens off their old devices.
    package static let adminImportFreeVoipTokens = statement(
        "admin_import_free_voip_tokens",
        PackageResources.admin_import_free_voip_tokens_sql
    )

    /// Adds the rows that led to no device.
    package static let adminImportInsertDevices = statement(
        "admin_import_insert_devices",
        PackageResources.admin_import_insert_devices_sql
    )

    /// Locks the devices to be changed, in id order.
    package static let adminImportLockDevices = statement(
        "admin_import_lock_devices",
        PackageResources.admin_import_lock_devices_sql
    )

    /// Finds the device of each row's installation.
    package static let adminImportMatchInstallation = statement(
        "admin_import_match_installation",
        PackageResources.admin_import_match_installation_sql
    )

    /// Finds the device that holds each row's token.
    package static let adminImportMatchToken = statement(
        "admin_import_match_token",
        PackageResources.admin_import_match_token_sql
    )

    /// Makes the rest of the transaction look rows up by index.
    package static let adminImportPlan = statement("admin_import_plan", PackageResources.admin_import_plan_sql)

    /// Makes the staging table of a chunk of an import.
    package static let adminImportStage = statement("admin_import_stage", PackageResources.admin_import_stage_sql)

    /// Refreshes the devices found.
    package static let adminImportUpdateDevices = statement(
        "admin_import_update_devices",
        PackageResources.admin_import_update_devices_sql
    )

    /// Adds a credential whose key is sealed.
    package static let adminInsertCredential = statement(
        "admin_insert_credential",
        PackageResources.admin_insert_credential_sql
    )

    /// Asks for a send.
    package static let adminInsertJob = statement("admin_insert_job", PackageResources.admin_insert_job_sql)

    /// Lists all slugs.
    package static let adminListAppSlugs = statement("admin_list_app_slugs", PackageResources.admin_list_app_slugs_sql)

    /// Lists the apps.
    package static let adminListApps = statement("admin_list_apps", PackageResources.admin_list_apps_sql)

    /// Lists credentials of one app or of all.
    package static let adminListCredentials = statement(
        "admin_list_credentials",
        PackageResources.admin_list_credentials_sql
    )

    /// Lists devices of an app, a page at a time.
    package static let adminListDevices = statement("admin_list_devices", PackageResources.admin_list_devices_sql)

    /// Lists jobs, newest first, a page at a time.
    package static let adminListJobs = statement("admin_list_jobs", PackageResources.admin_list_jobs_sql)

    /// Lists the time zone names that are accepted.
    package static let adminListTimezones = statement("admin_list_timezones", PackageResources.admin_list_timezones_sql)

    /// Takes the id of a credential to come.
    package static let adminNextCredentialId = statement(
        "admin_next_credential_id",
        PackageResources.admin_next_credential_id_sql
    )

    /// Pauses a job.
    package static let adminPauseJob = statement("admin_pause_job", PackageResources.admin_pause_job_sql)

    /// Counts an audience by channel without sending.
    package static let adminPreviewAudience = statement(
        "admin_preview_audience",
        PackageResources.admin_preview_audience_sql
    )

    /// Reads the status of a job.
    package static let adminReadJob = statement("admin_read_job", PackageResources.admin_read_job_sql)

    /// Reads one page of the results of a job.
    package static let adminReadResults = statement("admin_read_results", PackageResources.admin_read_results_sql)

    /// Records what a probe of a credential found.
    package static let adminRecordVerification = statement(
        "admin_record_verification",
        PackageResources.admin_record_verification_sql
    )

    /// Removes a credential and its key.
    package static let adminRemoveCredential = statement(
        "admin_remove_credential",
        PackageResources.admin_remove_credential_sql
    )

    /// Resumes a job.
    package static let adminResumeJob = statement("admin_resume_job", PackageResources.admin_resume_job_sql)

    /// Changes settings of an app.
    package static let adminSetApp = statement("admin_set_app", PackageResources.admin_set_app_sql)

    /// Removes devices.
    package static let adminUnregisterDevice = statement(
        "admin_unregister_device",
        PackageResources.admin_unregister_device_sql
    )
}
