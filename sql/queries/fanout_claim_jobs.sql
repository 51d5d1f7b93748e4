-- Takes jobs that have fan-out work under a lease, urgent lanes first, in each lane those that waited longest.
-- Parameters: $1 lease token uuid, $2 lease in milliseconds bigint, $3 limit for each urgent lane integer,
-- $4 limit for campaigns integer.
-- Rows: one a job, urgent ones first. job_id uuid, app_id integer, lane text, is_frozen boolean.
-- Index: job_fanout.
SELECT c.job_id, c.app_id, 'call' AS lane, c.is_frozen
FROM peal.claim_jobs('call', $1::uuid, $2::bigint * interval '1 millisecond', $3::integer) AS c
UNION ALL
SELECT c.job_id, c.app_id, 'transactional', c.is_frozen
FROM peal.claim_jobs('transactional', $1::uuid, $2::bigint * interval '1 millisecond', $3::integer) AS c
UNION ALL
SELECT c.job_id, c.app_id, 'campaign', c.is_frozen
FROM peal.claim_jobs('campaign', $1::uuid, $2::bigint * interval '1 millisecond', $4::integer) AS c
