-- Fan-out, the second half: pages become ready batches, in the fair order, as the job's window has room.
-- Cursor and batches commit together, under the job's row.

-- Turns frozen pages of a job into ready batches, as many as its window has room for. The window is counted in
-- recipients: `batches_ahead` pages of the job's mean size, less those that are in batches and have no outcome yet.
-- Returns published (some, and there are more), full (no room), waiting (no page yet, the freeze goes on), expired
-- (nothing is published any more), done (every page is published) or lost (nothing was written).
CREATE FUNCTION peal.publish_pages(
    of_job uuid, token uuid, lease interval, batches_ahead integer,
    OUT state text, OUT batches integer, OUT recipients bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job peal.job;
    room bigint;
    in_batches bigint;
    next_size integer;
    weight integer;
    last_tag bigint;
BEGIN
    batches := 0;
    recipients := 0;
    SELECT j.* INTO job FROM peal.job AS j
    WHERE j.id = of_job AND j.lease_token = token AND j.state = 'running' AND j.paused_at IS NULL
    FOR NO KEY UPDATE;
    IF job.id IS NULL THEN
        state := 'lost';
        RETURN;
    ELSIF job.published_pages = job.page_count THEN
        state := CASE WHEN job.frozen_at IS NULL THEN 'waiting' ELSE 'done' END;
        RETURN;
    ELSIF job.expires_at <= now() THEN
        state := 'expired';
        RETURN;
    END IF;
    SELECT p.size INTO next_size FROM peal.audience_page AS p
    WHERE p.job_id = job.id AND p.audience_at = job.audience_at AND p.page_no = job.published_pages;
    -- A page above the mean must fit too, even beside a straggler.
    room := greatest(
        batches_ahead * ((job.audience_count + job.page_count - 1) / job.page_count), 2 * next_size
    );
    in_batches := job.released_count - peal.settled_count(job.id);
    IF in_batches + next_size > room THEN
        -- Those that wait for their retry take no room.
        in_batches := in_batches - coalesce((
            SELECT sum(d.size - bit_count(d.done)) FROM peal.batch_delayed AS d WHERE d.job_id = job.id
        ), 0);
    END IF;
    room := room - in_batches;

    SELECT count(*), coalesce(sum(p.size), 0) INTO batches, recipients
    FROM (
        SELECT p.page_no, p.size, sum(p.size) OVER (ORDER BY p.page_no) AS upto
        FROM peal.audience_page AS p
        WHERE p.job_id = job.id AND p.audience_at = job.audience_at AND p.page_no >= job.published_pages
            AND p.page_no < job.published_pages + batches_ahead
    ) AS p
    WHERE p.upto <= room;
    IF batches = 0 THEN
        state := 'full';
        RETURN;
    END IF;
    SELECT a.weight INTO weight FROM peal.app AS a WHERE a.id = job.app_id;
    last_tag := peal.take_tags(job.slot, job.lane, job.app_id, recipients * 1000 / weight);
    INSERT INTO peal.batch (
        slot, lane, vt, app_id, job_id, route, page_no, page_offset, size, expires_at, done
    )
    SELECT
        job.slot, peal.lane_number(job.lane),
        last_tag - (recipients - sum(p.size) OVER (ORDER BY p.page_no) + p.size) * 1000 / weight,
        job.app_id, job.id, p.route, p.page_no, 0, p.size, job.expires_at,
        decode(repeat('00', (p.size + 7) / 8), 'hex')
    FROM peal.audience_page AS p
    WHERE p.job_id = job.id AND p.audience_at = job.audience_at AND p.page_no >= job.published_pages
        AND p.page_no < job.published_pages + batches
    ORDER BY p.page_no;
    UPDATE peal.job AS j SET
        lease_until = now() + lease, published_pages = j.published_pages + batches,
        released_count = j.released_count + recipients
    WHERE j.id = job.id;
    IF job.lane <> 'campaign' THEN
        PERFORM pg_notify('peal_batch', job.lane);
    END IF;
    state := CASE
        WHEN job.published_pages + batches < job.page_count THEN 'published'
        WHEN job.frozen_at IS NULL THEN 'waiting'
        ELSE 'done'
    END;
END
$$;

-- Takes a stretch of an app's fair order and returns its end: work of `cost` begins where the app's last work ends, or
-- where the lane is now. In the lane of calls the order is the time of arrival.
-- Locks the app's row of the lane until the transaction ends; whoever needs several takes them in the order of ids.
CREATE FUNCTION peal.take_tags(of_slot smallint, of_lane text, of_app integer, cost bigint) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    lane_now bigint;
    last_tag bigint;
BEGIN
    IF of_lane = 'call' THEN
        RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + cost;
    END IF;
    SELECT c.vt INTO lane_now FROM peal.lane_clock AS c
    WHERE c.slot = of_slot AND c.lane = peal.lane_number(of_lane);
    lane_now := coalesce(lane_now, 0);
    INSERT INTO peal.app_lane AS l (app_id, lane, last_vt)
    VALUES (of_app, peal.lane_number(of_lane), lane_now + cost)
    ON CONFLICT (app_id, lane) DO UPDATE SET last_vt = greatest(l.last_vt, lane_now) + cost
    RETURNING l.last_vt INTO last_tag;
    RETURN last_tag;
END
$$;

-- Gives up a job that cannot be begun or gone on with, for the given reason. What was published of it is ended by the
-- scheduler like that of a cancelled job. Returns whether the lease still held.
CREATE FUNCTION peal.discard_job(of_job uuid, token uuid, reason text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE peal.job AS j SET
        state = 'discarded', failure = reason, lease_token = NULL, lease_until = '-infinity'
    WHERE j.id = of_job AND j.lease_token = token AND j.state = 'running';
    RETURN FOUND;
END
$$;

-- Freezes and publishes jobs of an urgent lane that name few recipients, many in one transaction: the whole way from
-- `available` to ready batches. Several at once share the work (each skips what another holds).
-- Returns how many jobs it took and how many batches they became. `since` looks only at ids from that moment on, so
-- that what old snapshots keep alive costs nothing; NULL looks at all.
CREATE FUNCTION peal.fan_out_small(of_lane text, most integer, since timestamptz, OUT jobs integer, OUT batches integer)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- Its statement is large: planned anew for each call, the plan costs four times the work.
SET plan_cache_mode = force_generic_plan
-- A plan that was made while a table was small must not scan it when it has grown.
SET enable_seqscan = off
AS $$
DECLARE
    picked uuid[];
    lowest constant uuid := lpad(to_hex((extract(epoch FROM since) * 1000)::bigint), 12, '0') || repeat('0', 20);
    at constant timestamptz := clock_timestamp();
BEGIN
    IF since IS NULL THEN
        picked := ARRAY(
            SELECT j.id FROM peal.job AS j
            WHERE j.lane = of_lane AND j.lease_until <= now() AND j.state IN ('available', 'running')
                AND j.paused_at IS NULL AND (j.frozen_at IS NULL OR j.published_pages < j.page_count)
                AND j.audience_at IS NULL AND peal.names_few(j.audience)
            ORDER BY j.lease_until, j.id
            LIMIT most
            FOR NO KEY UPDATE SKIP LOCKED
        );
    ELSE
        picked := ARRAY(
            SELECT j.id FROM peal.job AS j
            WHERE j.lane = of_lane AND j.lease_until = '-infinity' AND j.id >= lowest
                AND j.state IN ('available', 'running')
                AND j.paused_at IS NULL AND (j.frozen_at IS NULL OR j.published_pages < j.page_count)
                AND j.audience_at IS NULL AND peal.names_few(j.audience)
            ORDER BY j.id
            LIMIT most
            FOR NO KEY UPDATE SKIP LOCKED
        );
    END IF;
    jobs := cardinality(picked);
    batches := 0;
    IF jobs = 0 THEN
        RETURN;
    END IF;

    WITH resolved AS MATERIALIZED (
        SELECT j.id AS job_id, r.device_id, r.route, r.external_id, r.reason
        FROM peal.job AS j
        CROSS JOIN LATERAL peal.resolve_named(j.app_id, j.audience) AS r
        WHERE j.id = ANY (picked)
    ),
    numbered AS (
        SELECT r.job_id, r.device_id, r.route, (row_number() OVER (
            PARTITION BY r.job_id, r.route ORDER BY r.device_id
        ) - 1) / 1000 AS part
        FROM resolved AS r
        WHERE r.reason IS NULL
    ),
    pages AS MATERIALIZED (
        SELECT
            n.job_id, (row_number() OVER (PARTITION BY n.job_id ORDER BY n.route, n.part) - 1)::integer AS page_no,
            n.route, array_agg(n.device_id ORDER BY n.device_id) AS ids
        FROM numbered AS n
        GROUP BY n.job_id, n.route, n.part
    ),
    written_pages AS (
        INSERT INTO peal.audience_page (job_id, page_no, audience_at, route, size, first_id, last_id, ids)
        SELECT p.job_id, p.page_no, at, p.route, cardinality(p.ids), p.ids[1], p.ids[cardinality(p.ids)], p.ids
        FROM pages AS p
    ),
    written_results AS (
        INSERT INTO peal.result (job_id, device_id, route, outcome, attempt, reason, external_id)
        SELECT r.job_id, r.device_id, r.route, 3, 0, r.reason, r.external_id
        FROM resolved AS r
        WHERE r.reason IS NOT NULL
    ),
    written_deltas AS (
        INSERT INTO peal.stat_delta (job_id, outcome, reason, n)
        SELECT r.job_id, 3, r.reason, count(*) FROM resolved AS r WHERE r.reason IS NOT NULL
        GROUP BY r.job_id, r.reason
    ),
    totals AS MATERIALIZED (
        SELECT
            j.id, j.slot, j.app_id, j.expires_at, coalesce(r.n, 0) AS audience, coalesce(p.n, 0) AS pages,
            coalesce(p.recipients, 0) AS recipients
        FROM peal.job AS j
        LEFT JOIN (SELECT job_id, count(*) AS n FROM resolved GROUP BY job_id) AS r ON r.job_id = j.id
        LEFT JOIN (
            SELECT job_id, count(*) AS n, sum(cardinality(ids)) AS recipients FROM pages GROUP BY job_id
        ) AS p ON p.job_id = j.id
        WHERE j.id = ANY (picked)
    ),
    written_jobs AS (
        UPDATE peal.job AS j SET
            state = CASE t.pages WHEN 0 THEN 'completed' ELSE 'running' END,
            started_at = coalesce(j.started_at, at), audience_at = at, frozen_at = at,
            completed_at = CASE t.pages WHEN 0 THEN at END,
            audience_count = t.audience, released_count = t.audience, page_count = t.pages, published_pages = t.pages,
            lease_token = NULL
        FROM totals AS t
        WHERE j.id = t.id
    ),
    -- One stretch of the fair order for each app, taken in the order of ids.
    tags AS MATERIALIZED (
        SELECT
            s.app_id, s.weight, peal.take_tags(s.slot, of_lane, s.app_id, s.recipients * 1000 / s.weight)
                - s.recipients * 1000 / s.weight AS first_tag
        FROM (
            SELECT t.app_id, min(t.slot) AS slot, min(a.weight) AS weight, sum(t.recipients)::bigint AS recipients
            FROM totals AS t
            JOIN peal.app AS a ON a.id = t.app_id
            GROUP BY t.app_id
            HAVING sum(t.recipients) > 0
            ORDER BY t.app_id
            OFFSET 0
        ) AS s
    ),
    written_batches AS (
        INSERT INTO peal.batch (
            slot, lane, vt, app_id, job_id, route, page_no, page_offset, size, expires_at, done
        )
        SELECT
            t.slot, peal.lane_number(of_lane),
            g.first_tag + (
                sum(cardinality(p.ids)) OVER (PARTITION BY t.app_id ORDER BY p.job_id, p.page_no) - cardinality(p.ids)
            ) * 1000 / g.weight,
            t.app_id, p.job_id, p.route, p.page_no, 0, cardinality(p.ids), t.expires_at,
            decode(repeat('00', (cardinality(p.ids) + 7) / 8), 'hex')
        FROM pages AS p
        JOIN totals AS t ON t.id = p.job_id
        JOIN tags AS g ON g.app_id = t.app_id
        ORDER BY 3
        RETURNING 1
    )
    SELECT count(*) INTO batches FROM written_batches;
    IF batches > 0 THEN
        PERFORM pg_notify('peal_batch', of_lane);
    END IF;
END
$$;
