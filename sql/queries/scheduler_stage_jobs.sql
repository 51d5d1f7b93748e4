-- Makes scheduled jobs available whose time has come, by the server's clock, and tells of them.
-- Parameters: $1 limit integer.
-- Rows: one a lane among them. lane text, staged bigint: how many jobs.
-- Index: job_due, however many jobs are scheduled for later.
WITH staged AS (
    UPDATE peal.job AS j SET state = 'available'
    WHERE j.id = ANY (ARRAY(
        SELECT c.id FROM peal.job AS c
        WHERE c.state = 'scheduled' AND c.send_at <= now()
        ORDER BY c.send_at
        LIMIT $1::integer
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING j.lane
), counted AS (
    SELECT s.lane, count(*) AS staged FROM staged AS s GROUP BY s.lane
)
SELECT c.lane, c.staged, pg_notify('peal_job', c.lane) AS told FROM counted AS c
