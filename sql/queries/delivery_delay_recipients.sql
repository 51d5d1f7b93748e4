-- Sets recipients of batches aside: until they are due, or, held, until their job is resumed. Runs in the transaction
-- that marks them as done in their batch.
-- A held one is due at once if its job was resumed in the meantime: the lock on the job orders the two.
-- Parameters, arrays in step: $1 slot smallint, $2 lane smallint, $3 wait in milliseconds bigint[] (null: held),
-- $4 app ids integer[], $5 job ids uuid[], $6 routes smallint[], $7 page numbers integer[], $8 offsets integer[],
-- $9 sizes integer[], $10 attempts smallint[], $11 expiries timestamptz[], $12 bitmaps bytea[], $13 reasons text[],
-- $14 sending_to integer[]: recipients below it may have been sent.
-- Rows: none. Index: primary key of job.
WITH given AS MATERIALIZED (
    SELECT
        g.wait, g.app_id, g.job_id, g.route, g.page_no, g.page_offset, g.size, g.attempt, g.expires_at, g.done,
        g.reason, g.sending_to
    FROM unnest(
        $3::bigint[], $4::integer[], $5::uuid[], $6::smallint[], $7::integer[], $8::integer[], $9::integer[],
        $10::smallint[], $11::timestamptz[], $12::bytea[], $13::text[], $14::integer[]
    ) AS g (wait, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done, reason, sending_to)
), held AS MATERIALIZED (
    SELECT j.id, j.paused_at FROM peal.job AS j
    WHERE j.id IN (SELECT g.job_id FROM given AS g WHERE g.wait IS NULL)
    ORDER BY j.id
    FOR SHARE
)
INSERT INTO peal.batch_delayed (
    slot, lane, due_at, resume_at, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done, reason,
    sending_to
)
SELECT
    $1::smallint, $2::smallint,
    CASE
        WHEN g.wait IS NOT NULL THEN now() + g.wait * interval '1 millisecond'
        WHEN h.paused_at IS NOT NULL THEN 'infinity'
        ELSE now()
    END,
    CASE WHEN g.wait IS NULL AND h.paused_at IS NOT NULL THEN now() END,
    g.app_id, g.job_id, g.route, g.page_no, g.page_offset, g.size, g.attempt, g.expires_at, g.done, g.reason,
    g.sending_to
FROM given AS g
LEFT JOIN held AS h ON h.id = g.job_id
