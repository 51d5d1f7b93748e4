-- Moves the freeze of a job's audience forward by one step, in one transaction.
-- Parameters: $1 job id uuid, $2 lease token uuid, $3 lease in milliseconds bigint, $4 devices a step integer.
-- Rows: one. state text (frozen, more, lost), added bigint: recipients.
-- Index: primary keys of job and device; what serves the filter where it is narrow.
SELECT f.state, f.added
FROM peal.freeze_step($1::uuid, $2::uuid, $3::bigint * interval '1 millisecond', $4::integer) AS f
