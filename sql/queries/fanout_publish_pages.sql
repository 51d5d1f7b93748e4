-- Turns frozen pages of a job into ready batches while its window has room, in one transaction.
-- Parameters: $1 job id uuid, $2 lease token uuid, $3 lease in milliseconds bigint, $4 batches ahead integer.
-- Rows: one. state text (published, full, waiting, expired, done, lost), batches integer, recipients bigint.
-- Index: primary keys of job and audience_page, stat_delta_job.
SELECT p.state, p.batches, p.recipients
FROM peal.publish_pages($1::uuid, $2::uuid, $3::bigint * interval '1 millisecond', $4::integer) AS p
