-- One page of a job's results in the order in which they were recorded, after the last row of the page before.
-- Parameters: $1 job id uuid, $2 recorded at timestamptz, $3 device id bigint, $4 external id text (the last row's, or
-- -infinity, -1 and ''), $5 outcome text or null, $6 limit integer.
-- Rows: as peal.recipient_result. Index: the job_id index of each day's partition.
SELECT
    r.device_id, r.external_id, r.channel, r.outcome, r.reason, r.http_status, r.provider_id, r.provider_unique_id,
    r.attempt, r.recorded_at
FROM peal.recipient_result AS r
WHERE r.job_id = $1 AND r.recorded_at >= $2
    AND (r.recorded_at, coalesce(r.device_id, 0), coalesce(r.external_id, '')) > ($2, $3::bigint, $4::text)
    AND ($5::text IS NULL OR r.outcome = $5)
ORDER BY r.recorded_at, coalesce(r.device_id, 0), coalesce(r.external_id, '')
LIMIT $6
