-- One page of a job's results within a stretch of time, in the order in which they were recorded, after the last row of
-- the page before. The stretch keeps the sort as small as the page, however many results the job has.
-- Parameters: $1 job id uuid, $2 recorded at timestamptz, $3 device id bigint, $4 external id text (the last row's, or
-- the first moment, -1 and ''), $5 last moment of the stretch timestamptz, $6 outcome text or null, $7 limit integer.
-- Rows: as peal.recipient_result. Index: the index of each day's partition on job and time.
SELECT
    r.device_id, r.external_id, r.channel, r.outcome, r.reason, r.http_status, r.provider_id, r.provider_unique_id,
    r.attempt, r.recorded_at
FROM peal.recipient_result AS r
WHERE r.job_id = $1 AND r.recorded_at >= $2 AND r.recorded_at <= $5
    AND (r.recorded_at, coalesce(r.device_id, 0), coalesce(r.external_id, '')) > ($2, $3::bigint, $4::text)
    AND ($6::text IS NULL OR r.outcome = $6)
ORDER BY r.recorded_at, coalesce(r.device_id, 0), coalesce(r.external_id, '')
LIMIT $7
