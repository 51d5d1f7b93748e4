-- Gives up the lease of jobs; nobody takes them up before the rest is over.
-- Parameters: $1 lease token uuid, $2 job ids uuid[], $3 rest in milliseconds bigint.
-- Rows: one. released integer: how many were still held. Index: primary key of job.
SELECT peal.release_jobs($1::uuid, $2::uuid[], $3::bigint * interval '1 millisecond') AS released
