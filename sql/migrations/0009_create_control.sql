-- Cancel, pause and resume.

-- The state of a job, or the error that there is none.
CREATE FUNCTION peal.locked_job(job_id uuid) RETURNS peal.job
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job peal.job;
BEGIN
    SELECT j.* INTO job FROM peal.job AS j WHERE j.id = job_id FOR NO KEY UPDATE;
    IF job.id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'no_data_found', MESSAGE = format('no job has the id %s', job_id);
    END IF;
    RETURN job;
END
$$;

-- Cancels a job: nothing of it is submitted from the next second on; what was on the wire is counted as it ends.
-- Returns the job's state. A job that has ended stays as it is.
CREATE FUNCTION peal.cancel_job(job_id uuid) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job peal.job := peal.locked_job(job_id);
BEGIN
    IF job.state NOT IN ('scheduled', 'available', 'running') THEN
        RETURN job.state;
    END IF;
    UPDATE peal.job AS j SET state = 'cancelled', cancelled_at = clock_timestamp(), paused_at = NULL
    WHERE j.id = job_id;
    PERFORM pg_notify('peal_control', job_id::text);
    RETURN 'cancelled';
END
$$;

-- Holds a job where it is. Its batches that nobody works on are set aside at once; the others within a second.
CREATE FUNCTION peal.pause_job(job_id uuid) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job peal.job := peal.locked_job(job_id);
BEGIN
    IF job.state NOT IN ('scheduled', 'available', 'running') THEN
        RETURN job.state;
    END IF;
    UPDATE peal.job AS j SET paused_at = coalesce(j.paused_at, clock_timestamp()) WHERE j.id = job_id;
    WITH held AS (
        DELETE FROM peal.batch AS b
        WHERE b.slot = job.slot AND b.lane = peal.lane_number(job.lane) AND b.id IN (
            SELECT c.id FROM peal.batch AS c
            WHERE c.slot = job.slot AND c.lane = peal.lane_number(job.lane) AND c.job_id = job.id
                AND c.lease_until <= now()
            ORDER BY c.id
            FOR UPDATE SKIP LOCKED
        )
        RETURNING b.*
    )
    INSERT INTO peal.batch_delayed (
        slot, due_at, resume_at, lane, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done,
        sending_to
    )
    SELECT
        h.slot, 'infinity', now(), h.lane, h.app_id, h.job_id, h.route, h.page_no, h.page_offset, h.size, h.attempt,
        h.expires_at, h.done, h.sending_to
    FROM held AS h;
    UPDATE peal.batch_delayed AS d SET due_at = 'infinity', resume_at = d.due_at
    WHERE d.job_id = job.id AND d.due_at < 'infinity';
    PERFORM pg_notify('peal_control', job_id::text);
    RETURN 'paused';
END
$$;

-- Goes on exactly where a pause stopped. The time that the job was held counts against its expiry.
CREATE FUNCTION peal.resume_job(job_id uuid) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job peal.job := peal.locked_job(job_id);
BEGIN
    IF job.paused_at IS NULL THEN
        RETURN job.state;
    END IF;
    -- It is free from now on, so that a look at what became free lately finds it.
    UPDATE peal.job AS j SET paused_at = NULL, lease_until = greatest(j.lease_until, now()) WHERE j.id = job_id;
    UPDATE peal.batch_delayed AS d SET due_at = coalesce(d.resume_at, now()), resume_at = NULL
    WHERE d.job_id = job.id AND d.due_at = 'infinity';
    PERFORM pg_notify('peal_job', job.lane);
    PERFORM pg_notify('peal_control', job_id::text);
    RETURN job.state;
END
$$;
