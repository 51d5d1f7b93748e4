-- The first step of a large flush: writes each batch's bitmap and renews, releases or ends it, where the lease is
-- still ours. What the lease was lost of is not among the rows, and nothing of it may be written afterwards.
-- Two flushes never wait for each other: a row belongs to the one lease whose token it carries.
-- Parameters, arrays in step: $1 slot smallint, $2 batch ids bigint[], $3 lease tokens uuid[], $4 bitmaps bytea[],
-- $5 sending_to integer[], $6 whether something was settled smallint[] (0, 1), $7 fate smallint[] (0 keep, 1 release,
-- 2 finished), $8 lease in milliseconds bigint, $9 job ids uuid[], $10 whether the commit may be lost boolean,
-- $11 how many bits the row must have set integer[]: in a crash the server may forget flushes whose commit could be
-- lost, their results and their bits, and what is left of the batch must not end on the word of a worker that lived on.
-- Rows: `batch_id` of each batch that is still ours (`job_id` null), and each job with `state` and `is_paused`
-- (`batch_id` null). Index: the key (slot, id) of the lane's partition (here the campaign's); primary key of job.
WITH given AS MATERIALIZED (
    SELECT g.id, g.lease_token, g.done, g.sending_to, g.has_progress, g.fate, g.flushed_count
    FROM unnest($2::bigint[], $3::uuid[], $4::bytea[], $5::integer[], $6::smallint[], $7::smallint[], $11::integer[])
        AS g (id, lease_token, done, sending_to, has_progress, fate, flushed_count)
    WHERE NOT $10::boolean OR set_config('synchronous_commit', 'off', true) = 'off'
), kept AS (
    UPDATE peal.batch_campaign AS b SET
        done = g.done,
        sending_to = g.sending_to,
        lease_until = CASE g.fate WHEN 0 THEN now() + $8::bigint * interval '1 millisecond' ELSE '-infinity' END,
        settled_lease_no = CASE WHEN g.has_progress = 1 THEN b.lease_no ELSE b.settled_lease_no END
    FROM given AS g
    WHERE b.slot = $1::smallint AND b.id = ANY ($2::bigint[]) AND b.id = g.id AND b.lease_token = g.lease_token
        AND g.fate < 2 AND bit_count(b.done) = g.flushed_count
    RETURNING b.id
), finished AS (
    DELETE FROM peal.batch_campaign AS b
    USING given AS g
    WHERE b.slot = $1::smallint AND b.id = ANY ($2::bigint[]) AND b.id = g.id AND b.lease_token = g.lease_token
        AND g.fate = 2 AND bit_count(b.done) = g.flushed_count
    RETURNING b.id
)
SELECT k.id AS batch_id, NULL::uuid AS job_id, NULL::text AS state, NULL::boolean AS is_paused FROM kept AS k
UNION ALL
SELECT f.id, NULL, NULL, NULL FROM finished AS f
UNION ALL
SELECT NULL, j.id, j.state, j.paused_at IS NOT NULL FROM peal.job AS j WHERE j.id = ANY ($9::uuid[])
