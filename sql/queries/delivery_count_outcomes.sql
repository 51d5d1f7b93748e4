-- Appends counts of outcomes, to be rolled up later.
-- Parameters, arrays in step: $1 job ids uuid[], $2 outcomes smallint[], $3 reasons text[] ('' for none),
-- $4 counts bigint[]. Rows: none.
INSERT INTO peal.stat_delta (job_id, outcome, reason, n)
SELECT c.job_id, c.outcome, c.reason, c.n
FROM unnest($1::uuid[], $2::smallint[], $3::text[], $4::bigint[]) AS c (job_id, outcome, reason, n)
