-- Gives up a job that can never be begun or gone on with.
-- Parameters: $1 job id uuid, $2 lease token uuid, $3 reason text.
-- Rows: one. was_held boolean: whether the lease still held. Index: primary key of job.
SELECT peal.discard_job($1::uuid, $2::uuid, $3::text) AS was_held
