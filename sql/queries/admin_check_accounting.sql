-- The jobs whose count does not add up (promise 1). Reads every result that is kept: a second per few million.
-- Parameters: none. Rows: job_id uuid, audience bigint, and each term of the count; none when all is well.
SELECT
    job_id, audience, accepted, rejected, skipped, expired, superseded, cancelled, unknown, remaining, counted_in_status
FROM peal.check_accounting()
