package import PushCore

// The statements of Delivery.
extension SQLText {
    /// Claims ready batches of a lane. One statement a lane.
    package static let deliveryClaimBatches = LaneStatements(
        statement("delivery_claim_batches", PackageResources.delivery_claim_batches_sql)
    )

    /// Appends result rows by binary COPY.
    package static let deliveryCopyResults = statement(
        "delivery_copy_results",
        PackageResources.delivery_copy_results_sql
    )

    /// Appends counts of outcomes.
    package static let deliveryCountOutcomes = statement(
        "delivery_count_outcomes",
        PackageResources.delivery_count_outcomes_sql
    )

    /// Sets recipients of batches aside until they are due or their job is resumed.
    package static let deliveryDelayRecipients = statement(
        "delivery_delay_recipients",
        PackageResources.delivery_delay_recipients_sql
    )

    /// Disables devices whose tokens a provider called dead.
    package static let deliveryDisableDevices = statement(
        "delivery_disable_devices",
        PackageResources.delivery_disable_devices_sql
    )

    /// Holds the credentials of an account whose provider asked to wait.
    package static let deliveryHoldCredentials = statement(
        "delivery_hold_credentials",
        PackageResources.delivery_hold_credentials_sql
    )

    /// Says what of the words about a credential's tokens may be believed.
    package static let deliveryJudgeTokens = statement(
        "delivery_judge_tokens",
        PackageResources.delivery_judge_tokens_sql
    )

    /// Looks up the devices of small batches together.
    package static let deliveryLookUpRecipients = statement(
        "delivery_look_up_recipients",
        PackageResources.delivery_look_up_recipients_sql
    )

    /// Moves the clock of a lane on.
    package static let deliveryMoveLaneClock = statement(
        "delivery_move_lane_clock",
        PackageResources.delivery_move_lane_clock_sql
    )

    /// Reads batches whose last flush may or may not have been committed. One statement a lane.
    package static let deliveryReadBatches = LaneStatements(
        statement("delivery_read_batches", PackageResources.delivery_read_batches_sql)
    )

    /// Reads the credentials of apps.
    package static let deliveryReadCredentials = statement(
        "delivery_read_credentials",
        PackageResources.delivery_read_credentials_sql
    )

    /// Asks whether jobs in hand were cancelled or paused.
    package static let deliveryReadJobStates = statement(
        "delivery_read_job_states",
        PackageResources.delivery_read_job_states_sql
    )

    /// Reads jobs whose batches were claimed.
    package static let deliveryReadJobs = statement("delivery_read_jobs", PackageResources.delivery_read_jobs_sql)

    /// Reads the bearer that all processes use for a credential.
    package static let deliveryReadProviderToken = statement(
        "delivery_read_provider_token",
        PackageResources.delivery_read_provider_token_sql
    )

    /// Marks a credential as refused by its provider.
    package static let deliveryRefuseCredential = statement(
        "delivery_refuse_credential",
        PackageResources.delivery_refuse_credential_sql
    )

    /// Looks up the devices of a large batch.
    package static let deliveryResolveRecipients = statement(
        "delivery_resolve_recipients",
        PackageResources.delivery_resolve_recipients_sql
    )

    /// Writes bitmaps and leases of the batches in hand, and results where they are few. One statement a lane.
    package static let deliverySettleBatches = LaneStatements(
        statement("delivery_settle_batches", PackageResources.delivery_settle_batches_sql)
    )

    /// Splits a batch that makes no progress. One statement a lane.
    package static let deliverySplitBatch = LaneStatements(
        statement("delivery_split_batch", PackageResources.delivery_split_batch_sql)
    )

    /// Stores a new bearer, unless another process was first.
    package static let deliveryStoreProviderToken = statement(
        "delivery_store_provider_token",
        PackageResources.delivery_store_provider_token_sql
    )
}
