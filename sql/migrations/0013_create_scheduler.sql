-- What keeps jobs moving and tidies after them: staging, promotion of what waits, roll-up of counts, the end of jobs,
-- partitions. Each function is one short transaction; several at once skip what another holds, and do no harm.

-- Jobs that were cancelled or discarded and are not at their end, and jobs by their expiry.
CREATE INDEX job_ending ON peal.job (id) WHERE completed_at IS NULL AND state IN ('cancelled', 'discarded');
CREATE INDEX job_expiry ON peal.job (expires_at) WHERE completed_at IS NULL AND state IN ('available', 'running');

-- What becomes of a job's recipients that were not sent to: nothing yet (NULL), or their outcome and its reason.
CREATE FUNCTION peal.unsent_outcome(job peal.job, OUT outcome integer, OUT reason text)
LANGUAGE sql STABLE
AS $$
    SELECT
        CASE
            WHEN job.state IN ('cancelled', 'discarded') THEN 6
            WHEN job.state IN ('available', 'running') AND job.expires_at <= now() THEN 4
        END,
        CASE job.state WHEN 'discarded' THEN 'discarded' END
$$;

-- The part of a batch that ends without being sent: whose bit is unset in `done` gets its outcome.
CREATE TYPE peal.slice AS (
    job_id uuid,
    route smallint,
    page_no integer,
    page_offset integer,
    size integer,
    attempt smallint,
    done bytea,
    sending_to integer
);

-- Gives every recipient of the slices that has none the outcome that its job has for what was not sent; slices of jobs
-- that go on stay as they are. One that may have been on the wire (below `sending_to`) is `unknown` instead: nobody
-- will find out any more. Returns how many.
CREATE FUNCTION peal.settle_slices(slices peal.slice[]) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH ended AS MATERIALIZED (
        SELECT
            s.job_id, s.route, s.attempt, r.device_id,
            CASE WHEN r.n <= s.sending_to THEN 7 ELSE o.outcome END AS outcome,
            CASE WHEN r.n <= s.sending_to THEN 'in_doubt' ELSE o.reason END AS reason
        FROM unnest(slices) AS s
        JOIN peal.job AS j ON j.id = s.job_id
        CROSS JOIN LATERAL peal.unsent_outcome(j) AS o
        JOIN peal.audience_page AS p
            ON p.job_id = s.job_id AND p.page_no = s.page_no AND p.audience_at = j.audience_at
        CROSS JOIN LATERAL unnest(p.ids[s.page_offset + 1:s.page_offset + s.size])
            WITH ORDINALITY AS r (device_id, n)
        WHERE o.outcome IS NOT NULL AND get_bit(s.done, (r.n - 1)::integer) = 0
    ),
    recorded AS (
        INSERT INTO peal.result (job_id, device_id, route, outcome, attempt, reason)
        SELECT e.job_id, e.device_id, e.route, e.outcome, e.attempt, e.reason FROM ended AS e
    ),
    counted AS (
        INSERT INTO peal.stat_delta (job_id, outcome, reason, n)
        SELECT e.job_id, e.outcome, coalesce(e.reason, ''), count(*) FROM ended AS e
        GROUP BY e.job_id, e.outcome, e.reason
    )
    SELECT count(*) FROM ended
$$;

-- Moves batches that waited until now into the ready queue, behind what their app already has there. Those of a
-- paused job wait for its resumption; those whose job or time is over get their outcome.
-- Returns how many rows it took up, and the lanes that became ready.
CREATE FUNCTION peal.promote_delayed(of_slot smallint, most integer, OUT taken integer, OUT lanes text[])
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    due peal.batch_delayed[];
    jobs uuid[];
    share record;
    lane text;
BEGIN
    due := ARRAY(
        SELECT d FROM peal.batch_delayed AS d
        WHERE d.slot = of_slot AND d.due_at <= now()
        ORDER BY d.due_at
        LIMIT most
        FOR UPDATE SKIP LOCKED
    );
    lanes := '{}';
    -- The jobs' locks order this with pause and resume, which move the same rows.
    jobs := ARRAY(
        SELECT j.id FROM peal.job AS j
        WHERE j.id IN (SELECT d.job_id FROM unnest(due) AS d)
        ORDER BY j.id
        FOR SHARE SKIP LOCKED
    );
    due := ARRAY(SELECT d FROM unnest(due) AS d WHERE d.job_id = ANY (jobs) ORDER BY d.due_at, d.id);
    taken := cardinality(due);
    IF taken = 0 THEN
        RETURN;
    END IF;

    UPDATE peal.batch_delayed AS w SET due_at = 'infinity', resume_at = w.due_at
    FROM unnest(due) AS d
    JOIN peal.job AS j ON j.id = d.job_id
    WHERE w.slot = of_slot AND w.id = d.id AND j.paused_at IS NOT NULL AND j.state IN ('available', 'running')
        AND j.expires_at > now();
    DELETE FROM peal.batch_delayed AS w
    USING unnest(due) AS d, peal.job AS j
    WHERE w.slot = of_slot AND w.id = d.id AND w.due_at < 'infinity' AND j.id = d.job_id
        AND j.state IN ('available', 'running', 'cancelled', 'discarded');
    PERFORM peal.settle_slices(
        array_agg(
            (d.job_id, d.route, d.page_no, d.page_offset, d.size, d.attempt - 1, d.done, d.sending_to)::peal.slice
        )
    )
    FROM unnest(due) AS d;

    FOR share IN
        SELECT
            d.lane, d.app_id, array_agg(d ORDER BY d.due_at, d.id) AS due,
            sum(d.size - bit_count(d.done))::bigint AS recipients
        FROM unnest(due) AS d
        JOIN peal.job AS j ON j.id = d.job_id
        WHERE j.state = 'running' AND j.paused_at IS NULL AND j.expires_at > now()
        GROUP BY d.lane, d.app_id
        ORDER BY d.app_id, d.lane
    LOOP
        lane := (ARRAY['call', 'transactional', 'campaign'])[share.lane];
        PERFORM peal.requeue(share.due, of_slot, lane, share.app_id, share.recipients);
        IF lane <> ALL (lanes) THEN
            lanes := lanes || lane;
        END IF;
    END LOOP;
    IF lanes && ARRAY['call', 'transactional'] THEN
        PERFORM pg_notify('peal_batch', l) FROM unnest(lanes) AS l WHERE l <> 'campaign';
    END IF;
END
$$;

-- Puts batches of one app that waited back into the ready queue.
CREATE FUNCTION peal.requeue(
    waiting peal.batch_delayed[], of_slot smallint, of_lane text, of_app integer, recipients bigint
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    weight integer := (SELECT a.weight FROM peal.app AS a WHERE a.id = of_app);
    last_tag bigint := peal.take_tags(of_slot, of_lane, of_app, recipients * 1000 / weight);
BEGIN
    INSERT INTO peal.batch (
        slot, lane, id, vt, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done, sending_to
    )
    SELECT
        d.slot, d.lane, d.id,
        last_tag - (sum(d.size - bit_count(d.done)) OVER (ORDER BY d.due_at DESC, d.id DESC)) * 1000 / weight,
        d.app_id, d.job_id, d.route, d.page_no, d.page_offset, d.size, d.attempt, d.expires_at, d.done, d.sending_to
    FROM unnest(waiting) AS d
    ORDER BY d.due_at, d.id;
END
$$;

-- Adds up to `most` counted deltas into the totals of their jobs, and ends the jobs that are complete with them.
-- Returns how many deltas it took and how many jobs ended.
CREATE FUNCTION peal.roll_up(most integer, OUT taken integer, OUT completed integer)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    touched uuid[];
BEGIN
    WITH gone AS (
        DELETE FROM peal.stat_delta AS d
        WHERE d.ctid = ANY (ARRAY(SELECT c.ctid FROM peal.stat_delta AS c LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING d.job_id, d.outcome, d.reason, d.n
    ),
    added AS (
        INSERT INTO peal.job_stat AS s (job_id, outcome, reason, n)
        SELECT g.job_id, g.outcome, g.reason, sum(g.n) FROM gone AS g
        GROUP BY g.job_id, g.outcome, g.reason
        ORDER BY g.job_id, g.outcome, g.reason
        ON CONFLICT (job_id, outcome, reason) DO UPDATE SET n = s.n + excluded.n
    )
    SELECT count(*), array_agg(DISTINCT g.job_id) INTO taken, touched FROM gone AS g;
    completed := CASE WHEN taken > 0 THEN peal.complete_jobs(touched) ELSE 0 END;
END
$$;

-- Ends jobs that are complete though no roll-up told so. Looks at `most` jobs in hand after the given id.
-- Returns the last id that it looked at (NULL: it came to the end) and how many jobs ended.
CREATE FUNCTION peal.complete_settled_jobs(after uuid, most integer, OUT last_id uuid, OUT completed integer)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    looked_at uuid[] := ARRAY(
        SELECT j.id FROM peal.job AS j
        WHERE j.completed_at IS NULL AND j.state IN ('available', 'running', 'cancelled', 'discarded')
            AND j.id > after
        ORDER BY j.id
        LIMIT most
    );
BEGIN
    completed := peal.complete_jobs(looked_at);
    last_id := CASE WHEN cardinality(looked_at) = most THEN looked_at[most] END;
END
$$;

-- Gives the unsent recipients of cancelled, discarded and expired jobs their outcome: those of unpublished pages, of
-- batches that nobody has in hand, and of waiting ones; at most about `most` recipients of `most_jobs` jobs a step.
-- The freeze of a job that was cancelled, or expired while it was paused, stops where it is; an expired job is frozen
-- to its end, so that each of its recipients is counted. Returns how many got their outcome; 0: nothing left for now.
CREATE FUNCTION peal.sweep_ended_jobs(most_jobs integer, most integer) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    ended uuid[];
    settled bigint;
BEGIN
    ended := ARRAY(
        SELECT j.id FROM peal.job AS j
        WHERE j.completed_at IS NULL AND j.state IN ('cancelled', 'discarded')
        ORDER BY j.id
        LIMIT most_jobs
        FOR NO KEY UPDATE SKIP LOCKED
    ) || ARRAY(
        SELECT j.id FROM peal.job AS j
        WHERE j.completed_at IS NULL AND j.state IN ('available', 'running') AND j.expires_at <= now()
            AND (j.state = 'running' OR j.paused_at IS NOT NULL)
        ORDER BY j.expires_at
        LIMIT most_jobs
        FOR NO KEY UPDATE SKIP LOCKED
    );
    IF cardinality(ended) = 0 THEN
        RETURN 0;
    END IF;
    UPDATE peal.job AS j SET
        state = CASE
            WHEN j.state IN ('available', 'running') AND j.audience_at IS NULL THEN 'discarded'
            WHEN j.state = 'available' THEN 'running'
            ELSE j.state
        END,
        failure = CASE
            WHEN j.state IN ('available', 'running') AND j.audience_at IS NULL
            THEN 'it expired while it was paused, before anyone had counted its audience'
            ELSE j.failure
        END,
        frozen_at = clock_timestamp(), named_device_ids = NULL
    WHERE j.id = ANY (ended) AND j.frozen_at IS NULL AND (j.state IN ('cancelled', 'discarded') OR j.paused_at IS NOT NULL);
    settled := peal.sweep_pages(ended, most);
    IF settled < most THEN
        settled := settled + peal.sweep_batches(ended, most);
    END IF;
    IF settled < most THEN
        settled := settled + peal.sweep_delayed(ended, most);
    END IF;
    PERFORM peal.complete_jobs(ended);
    RETURN settled;
END
$$;

-- The part of a sweep that ends unpublished pages. The jobs are locked by the caller.
CREATE FUNCTION peal.sweep_pages(ended uuid[], most integer) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    slices peal.slice[] := ARRAY(
        SELECT (u.job_id, u.route, u.page_no, 0, u.size, 0, u.done, 0)::peal.slice
        FROM (
            SELECT
                p.job_id, p.route, p.page_no, p.size, decode(repeat('00', (p.size + 7) / 8), 'hex') AS done,
                sum(p.size) OVER (ORDER BY p.job_id, p.page_no) AS upto
            FROM peal.job AS j
            JOIN peal.audience_page AS p ON p.job_id = j.id AND p.audience_at = j.audience_at
                AND p.page_no >= j.published_pages
            WHERE j.id = ANY (ended) AND j.published_pages < j.page_count
        ) AS u
        WHERE u.upto <= greatest(most, 5000)
    );
    settled bigint := peal.settle_slices(slices);
BEGIN
    UPDATE peal.job AS j SET
        published_pages = j.published_pages + u.pages, released_count = j.released_count + u.recipients
    FROM (
        SELECT s.job_id, count(*) AS pages, sum(s.size) AS recipients FROM unnest(slices) AS s GROUP BY s.job_id
    ) AS u
    WHERE j.id = u.job_id;
    RETURN settled;
END
$$;

-- The part of a sweep that ends batches which nobody has in hand.
CREATE FUNCTION peal.sweep_batches(ended uuid[], most integer) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH free AS MATERIALIZED (
        SELECT b.slot, b.lane, b.id, b.size FROM peal.batch AS b
        WHERE b.job_id = ANY (ended) AND b.lease_until <= now()
        ORDER BY b.id
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ),
    gone AS (
        DELETE FROM peal.batch AS b
        USING (SELECT f.slot, f.lane, f.id, sum(f.size) OVER (ORDER BY f.id) AS upto FROM free AS f) AS f
        WHERE b.slot = f.slot AND b.lane = f.lane AND b.id = f.id AND f.upto <= greatest(most, 5000)
        RETURNING b.job_id, b.route, b.page_no, b.page_offset, b.size, b.attempt, b.done, b.sending_to
    )
    SELECT peal.settle_slices(array_agg(
        (g.job_id, g.route, g.page_no, g.page_offset, g.size, g.attempt - 1, g.done, g.sending_to)::peal.slice
    ))
    FROM gone AS g
$$;

-- The part of a sweep that ends waiting batches, held ones too.
CREATE FUNCTION peal.sweep_delayed(ended uuid[], most integer) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH free AS MATERIALIZED (
        SELECT d.slot, d.id, d.size FROM peal.batch_delayed AS d
        WHERE d.job_id = ANY (ended)
        ORDER BY d.id
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ),
    gone AS (
        DELETE FROM peal.batch_delayed AS d
        USING (SELECT f.slot, f.id, sum(f.size) OVER (ORDER BY f.id) AS upto FROM free AS f) AS f
        WHERE d.slot = f.slot AND d.id = f.id AND f.upto <= greatest(most, 5000)
        RETURNING d.job_id, d.route, d.page_no, d.page_offset, d.size, d.attempt, d.done, d.sending_to
    )
    SELECT peal.settle_slices(array_agg(
        (g.job_id, g.route, g.page_no, g.page_offset, g.size, g.attempt - 1, g.done, g.sending_to)::peal.slice
    ))
    FROM gone AS g
$$;

-- Takes or renews the lease of a maintenance duty by the server's clock. Returns the term (it rises with each new
-- holder), or no row where somebody else has it.
CREATE FUNCTION peal.hold_role(of_role text, of_holder uuid, lease interval) RETURNS SETOF bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO peal.role_lease AS r (role, holder, term, lease_until)
    VALUES (of_role, of_holder, 1, now() + lease)
    ON CONFLICT (role) DO UPDATE SET
        holder = excluded.holder, lease_until = excluded.lease_until,
        term = r.term + CASE WHEN r.holder = excluded.holder THEN 0 ELSE 1 END
    WHERE r.holder = excluded.holder OR r.lease_until <= now()
    RETURNING r.term
$$;

-- Gives up the lease of a maintenance duty at once, so that the next need not wait for its end.
CREATE FUNCTION peal.resign_role(of_role text, of_holder uuid) RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH resigned AS (
        UPDATE peal.role_lease AS r SET lease_until = '-infinity', holder = NULL
        WHERE r.role = of_role AND r.holder = of_holder
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM resigned)
$$;

-- Drops the oldest day partition that holds nothing worth keeping, and before it the ended jobs whose results it holds, so
-- that no job is left whose count cannot be checked. One step: up to 5,000 jobs, or the partition. Returns the name of
-- the partition that it worked on, NULL when none may go. Throws 55P03 when somebody reads the partition.
-- It acts as the owner of the tables, whichever worker calls it.
CREATE FUNCTION peal.drop_old_partition(keep_days integer) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET lock_timeout = '500ms'
AS $$
DECLARE
    needed_since timestamptz;
    oldest text;
    ends timestamptz;
    ended uuid[];
BEGIN
    IF (keep_days >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('days to keep must be 1 or more, found %s', coalesce(keep_days::text, 'nothing'));
    END IF;
    SELECT least(now() - make_interval(days => keep_days), min(j.audience_at)) INTO needed_since
    FROM peal.job AS j
    WHERE j.completed_at IS NULL AND j.state IN ('available', 'running', 'cancelled', 'discarded');
    SELECT c.relname, (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' INTO oldest, ends
    FROM pg_catalog.pg_inherits AS i
    JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent IN ('peal.result'::regclass, 'peal.audience_page'::regclass)
        AND c.relname ~ '^(result|audience_page)_\d{8}$'
        AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= needed_since
    ORDER BY right(c.relname, 8), c.relname
    LIMIT 1;
    IF oldest IS NULL THEN
        RETURN NULL;
    END IF;
    ended := ARRAY(
        SELECT j.id FROM peal.job AS j
        WHERE j.completed_at IS NOT NULL AND coalesce(j.audience_at, j.completed_at) < ends
            AND j.completed_at < now() - make_interval(days => keep_days)
        ORDER BY coalesce(j.audience_at, j.completed_at)
        LIMIT 5000
        FOR UPDATE SKIP LOCKED
    );
    IF cardinality(ended) > 0 THEN
        DELETE FROM peal.job_stat AS s WHERE s.job_id = ANY (ended);
        DELETE FROM peal.stat_delta AS s WHERE s.job_id = ANY (ended);
        DELETE FROM peal.job AS j WHERE j.id = ANY (ended);
    ELSIF EXISTS (
        SELECT FROM peal.job AS j WHERE j.completed_at IS NOT NULL AND coalesce(j.audience_at, j.completed_at) < ends
    ) THEN
        -- It ended long after it began, and is kept as long as any other.
        RETURN NULL;
    ELSE
        EXECUTE format('DROP TABLE peal.%I', oldest);
    END IF;
    RETURN oldest;
END
$$;
