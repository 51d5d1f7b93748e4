-- Writes a flush: each batch's bitmap, and its lease renewed, released or ended, where the lease is still ours; and, where
-- they are few, the results and their counts in the same statement, so that a push costs one round trip and one commit.
-- Many results go by COPY in the same transaction before, and their arrays are empty here.
-- What the lease was lost of is not among the rows, and nothing of it may be written: not even where a newer lease of the
-- same batch is written by the same flush, so each result names the part of the flush that it belongs to.
-- Two flushes never wait for each other: a row belongs to the one lease whose token it carries.
-- Parameters, arrays in step: $1 slot smallint, $2 batch ids bigint[], $3 lease tokens uuid[], $4 bitmaps bytea[],
-- $5 sending_to integer[], $6 whether something was settled smallint[] (0, 1), $7 fate smallint[] (0 keep, 1 release,
-- 2 finished), $8 lease in milliseconds bigint, $9 job ids uuid[], $10 whether the commit may be lost boolean,
-- $11 how many bits the row must have set integer[]: in a crash the server may forget flushes whose commit could be
-- lost, their results and their bits, and what is left of the batch must not end on the word of a worker that lived on.
-- Then the results, arrays in step: $12 their parts integer[] (places in $2, from 1), $13 job ids uuid[], $14 device ids bigint[], $15 routes
-- smallint[], $16 outcomes smallint[], $17 attempts smallint[], $18 HTTP status smallint[] (0 for none), $19 reasons
-- text[] ('' for none), $20 provider ids text[] ('' for none), $21 provider's unique ids text[] ('' for none).
-- Rows: `part` of each batch that is still ours (`job_id` null), and each job with `state` and `is_paused`
-- (`part` null). Index: the key (slot, id) of the lane's partition (here the campaign's); primary key of job.
WITH given AS MATERIALIZED (
    SELECT g.id, g.lease_token, g.done, g.sending_to, g.has_progress, g.fate, g.flushed_count, g.part
    FROM unnest($2::bigint[], $3::uuid[], $4::bytea[], $5::integer[], $6::smallint[], $7::smallint[], $11::integer[])
        WITH ORDINALITY AS g (id, lease_token, done, sending_to, has_progress, fate, flushed_count, part)
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
    RETURNING g.part
), finished AS (
    DELETE FROM peal.batch_campaign AS b
    USING given AS g
    WHERE b.slot = $1::smallint AND b.id = ANY ($2::bigint[]) AND b.id = g.id AND b.lease_token = g.lease_token
        AND g.fate = 2 AND bit_count(b.done) = g.flushed_count
    RETURNING g.part
), ours AS MATERIALIZED (
    SELECT k.part FROM kept AS k UNION ALL SELECT f.part FROM finished AS f
), settled AS MATERIALIZED (
    SELECT
        s.job_id, s.device_id, s.route, s.outcome, s.attempt, s.http_status, s.reason, s.provider_id,
        s.provider_unique_id
    FROM unnest(
        $12::integer[], $13::uuid[], $14::bigint[], $15::smallint[], $16::smallint[], $17::smallint[], $18::smallint[],
        $19::text[], $20::text[], $21::text[]
    ) AS s (
        part, job_id, device_id, route, outcome, attempt, http_status, reason, provider_id, provider_unique_id
    )
    WHERE s.part IN (SELECT o.part FROM ours AS o)
), recorded AS (
    INSERT INTO peal.result (
        job_id, device_id, route, outcome, attempt, http_status, reason, provider_id, provider_unique_id
    )
    SELECT
        s.job_id, s.device_id, s.route, s.outcome, s.attempt, nullif(s.http_status, 0), nullif(s.reason, ''),
        nullif(s.provider_id, ''), nullif(s.provider_unique_id, '')
    FROM settled AS s
), counted AS (
    INSERT INTO peal.stat_delta (job_id, outcome, reason, n)
    SELECT s.job_id, s.outcome, s.reason, count(*) FROM settled AS s GROUP BY s.job_id, s.outcome, s.reason
)
SELECT o.part, NULL::uuid AS job_id, NULL::text AS state, NULL::boolean AS is_paused FROM ours AS o
UNION ALL
SELECT NULL, j.id, j.state, j.paused_at IS NOT NULL FROM peal.job AS j WHERE j.id = ANY ($9::uuid[])
