-- Whether jobs in hand were cancelled or paused.
-- Parameters: $1 job ids uuid[]. Rows: one a job that exists, in no order. Index: primary key.
SELECT j.id, j.state, j.paused_at IS NOT NULL AS is_paused
FROM peal.job AS j
WHERE j.id = ANY ($1::uuid[])
