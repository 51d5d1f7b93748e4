-- Takes jobs that have fan-out work under a lease, urgent lanes first, in each lane of each app its share.
-- Parameters: $1 lease token uuid, $2 lease in milliseconds bigint, $3 limit for each urgent lane integer,
-- $4 limit for campaigns integer, $5 and $6 the app to begin after in urgent lanes and among campaigns integer,
-- $7 and $8 apps that have enough urgent jobs, and campaigns, in hand integer[], $9 look only at jobs that are free
-- since so many milliseconds or less bigint (null: all).
-- Rows: one a job, urgent ones first. job_id uuid, app_id integer, lane text, is_frozen boolean.
-- Index: job_fanout, job_fanout_young.
SELECT c.job_id, c.app_id, 'call' AS lane, c.is_frozen
FROM peal.claim_jobs(
    'call', $1::uuid, $2::bigint * interval '1 millisecond', $3::integer, $5::integer, $7::integer[],
    now() - $9::bigint * interval '1 millisecond'
) AS c
UNION ALL
SELECT c.job_id, c.app_id, 'transactional', c.is_frozen
FROM peal.claim_jobs(
    'transactional', $1::uuid, $2::bigint * interval '1 millisecond', $3::integer, $5::integer, $7::integer[],
    now() - $9::bigint * interval '1 millisecond'
) AS c
UNION ALL
SELECT c.job_id, c.app_id, 'campaign', c.is_frozen
FROM peal.claim_jobs(
    'campaign', $1::uuid, $2::bigint * interval '1 millisecond', $4::integer, $6::integer, $8::integer[],
    now() - $9::bigint * interval '1 millisecond'
) AS c
