-- Appends result rows. recorded_at is left to its default, the time of the transaction.
COPY peal.result (
    job_id, device_id, route, outcome, attempt, http_status, reason, provider_id, provider_unique_id
) FROM STDIN (FORMAT binary)
