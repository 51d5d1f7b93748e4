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
SET jit = off
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

-- Notes that a step of a job's freeze ran out of time, and gives the job up when that came to pass `most` times with
-- nothing in between. Returns whether it was given up.
CREATE FUNCTION peal.note_freeze_timeout(of_job uuid, token uuid, most integer) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    timeouts integer;
BEGIN
    UPDATE peal.job AS j SET freeze_timeouts = j.freeze_timeouts + 1
    WHERE j.id = of_job AND j.lease_token = token AND j.state = 'running' AND j.frozen_at IS NULL
    RETURNING j.freeze_timeouts INTO timeouts;
    RETURN coalesce(timeouts >= most, false) AND peal.discard_job(
        of_job, token,
        format(
            'audience: its devices could not be found in time, %s times in a row; simplify its filter or segments, or '
            'give the devices a tag and filter by that', timeouts
        )
    );
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

-- Locks the next small jobs of an app: as many as its share, without those seen, in the order of arrival; with `spans`
-- only jobs that became due in those stretches. The share is used up when they lead to twenty recipients a place of it,
-- though it is one job at least. A job that leads to more than a thousand is not small after all.
-- Returns what to take, what is too large, how many recipients it counted, whether the share is used up, and whether
-- there may be more.
CREATE FUNCTION peal.lock_small_jobs(
    of_lane text, of_app integer, seen uuid[], share integer, spans timestamptz[],
    OUT fitting uuid[], OUT too_large uuid[], OUT recipients integer, OUT is_used_up boolean,
    OUT has_more boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    locked uuid[];
    one uuid;
    met integer;
BEGIN
    IF spans IS NULL THEN
        locked := ARRAY(
            SELECT j.id FROM peal.job AS j
            WHERE j.lane = of_lane AND j.app_id = of_app AND j.id <> ALL (seen)
                AND j.small_size IS NOT NULL AND j.state = 'available' AND j.paused_at IS NULL
            ORDER BY j.id
            LIMIT share
            FOR NO KEY UPDATE SKIP LOCKED
        );
    ELSE
        locked := ARRAY(
            SELECT y.id
            FROM unnest(spans) AS span
            CROSS JOIN LATERAL (
                SELECT j.id FROM peal.job AS j
                WHERE j.lane = of_lane AND peal.due_span(j.send_at) = span AND j.app_id = of_app
                    AND j.id <> ALL (seen)
                    AND j.small_size IS NOT NULL AND j.state = 'available' AND j.paused_at IS NULL
                ORDER BY j.id
                LIMIT share
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS y
            LIMIT share
        );
    END IF;
    fitting := '{}';
    too_large := '{}';
    recipients := 0;
    FOREACH one IN ARRAY locked LOOP
        -- A few users may have any number of devices.
        SELECT count(*) INTO met FROM (
            SELECT FROM peal.job AS j
            CROSS JOIN LATERAL jsonb_array_elements_text(j.audience -> 'external_ids') AS named (id)
            LEFT JOIN LATERAL (
                SELECT FROM peal.device AS d WHERE d.app_id = of_app AND d.external_id = named.id LIMIT 1001
            ) AS devices ON true
            WHERE j.id = one
            UNION ALL
            SELECT FROM peal.job AS j
            CROSS JOIN LATERAL jsonb_array_elements(j.audience -> 'device_ids')
            WHERE j.id = one
            LIMIT 1001
        ) AS counted;
        recipients := recipients + met;
        IF met > 1000 THEN
            too_large := too_large || one;
        ELSE
            fitting := fitting || one;
        END IF;
        EXIT WHEN recipients >= share * 20;
    END LOOP;
    is_used_up := recipients >= share * 20;
    has_more := cardinality(locked) = share OR cardinality(fitting) + cardinality(too_large) < cardinality(locked);
END
$$;

-- Locks small jobs of a lane for one turn: of each waiting app its share by weight, in the order of arrival, beginning
-- with the app after the given one; what an app leaves of its share goes to the others. A turn is as long as its jobs
-- have recipients, not as they are many: it ends when they are twenty a place, and the next begins with the next app.
-- Returns what to take, what is too large to be taken so, whether there may be more, and the app that the next turn is
-- to begin after.
CREATE FUNCTION peal.pick_small_jobs(
    of_lane text, most integer, since timestamptz, after_app integer,
    OUT picked uuid[], OUT too_large uuid[], OUT has_more boolean, OUT last_app integer
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    spans constant timestamptz[] := peal.spans_since(since);
    -- Whose jobs a round takes, in the order of turns.
    apps integer[] := peal.apps_in_turn(of_lane, true, spans, after_app, most);
    more_apps integer[];
    served record;
    taken record;
    room integer := most;
    recipients integer := 0;
    is_first_round boolean := true;
    is_share_left boolean;
BEGIN
    picked := '{}';
    too_large := '{}';
    has_more := cardinality(apps) >= most;
    last_app := after_app;
    WHILE cardinality(apps) > 0 LOOP
        more_apps := '{}';
        is_share_left := false;
        FOR served IN
            SELECT
                u.app_id,
                greatest(1, coalesce(a.weight, 100) * room / sum(coalesce(a.weight, 100)) OVER ())::integer AS share
            FROM unnest(apps) WITH ORDINALITY AS u (app_id, place)
            LEFT JOIN peal.app AS a ON a.id = u.app_id
            ORDER BY u.place
        LOOP
            IF room = 0 OR recipients >= most * 20 THEN
                has_more := true;
                RETURN;
            END IF;
            SELECT * INTO taken
            FROM peal.lock_small_jobs(
                of_lane, served.app_id, picked || too_large, least(served.share, room), spans
            );
            picked := picked || taken.fitting;
            too_large := too_large || taken.too_large;
            room := room - cardinality(taken.fitting) - cardinality(taken.too_large);
            recipients := recipients + taken.recipients;
            has_more := has_more OR taken.has_more;
            IF is_first_round THEN
                last_app := served.app_id;
            END IF;
            IF taken.has_more AND NOT taken.is_used_up THEN
                more_apps := more_apps || served.app_id;
            ELSIF NOT taken.is_used_up THEN
                is_share_left := true;
            END IF;
        END LOOP;
        EXIT WHEN NOT is_share_left;
        apps := more_apps;
        is_first_round := false;
    END LOOP;
END
$$;

-- Freezes and publishes jobs of an urgent lane that name few recipients, many in one transaction: the whole way from
-- `available` to ready batches, each waiting app by its share. Several at once share the work (each skips what another
-- holds). A job that cannot be taken so, or leads to more than 1,000 devices, is left to be frozen by itself, the others
-- go on.
-- Returns how many jobs it took and how many batches they became, whether there is more, and the app that the next turn
-- is to begin after. `since` looks only at jobs that became due from that moment on, so that what old snapshots keep
-- alive costs nothing; NULL looks at all.
CREATE FUNCTION peal.fan_out_small(
    of_lane text, most integer, since timestamptz, after_app integer DEFAULT 0,
    OUT jobs integer, OUT batches integer, OUT has_more boolean, OUT last_app integer
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
-- Its statements are large: planned anew for each call, the plan costs four times the work.
SET plan_cache_mode = force_generic_plan
-- A plan that was made while a table was small must not scan it when it has grown.
SET enable_seqscan = off
AS $$
DECLARE
    picked uuid[];
    too_large uuid[];
    one uuid;
BEGIN
    SELECT p.picked, p.too_large, p.has_more, p.last_app INTO picked, too_large, has_more, last_app
    FROM peal.pick_small_jobs(of_lane, most, since, after_app) AS p;
    jobs := cardinality(picked) + cardinality(too_large);
    batches := 0;
    -- What is lost with the server is fanned out again. Calls wait for the disk: they must not ring twice.
    IF of_lane <> 'call' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF cardinality(too_large) > 0 THEN
        UPDATE peal.job AS j SET small_size = NULL WHERE j.id = ANY (too_large);
    END IF;
    IF picked = '{}' THEN
        RETURN;
    END IF;
    BEGIN
        batches := peal.publish_small(of_lane, picked);
    EXCEPTION WHEN data_exception OR program_limit_exceeded OR integrity_constraint_violation OR raise_exception THEN
        -- A missing day partition is nothing about a job.
        IF SQLSTATE = '23514' THEN
            RAISE;
        END IF;
        -- In the order in which everyone takes the apps' rows of the lane.
        FOR one IN SELECT j.id FROM peal.job AS j WHERE j.id = ANY (picked) ORDER BY j.app_id, j.id LOOP
            BEGIN
                batches := batches + peal.publish_small(of_lane, ARRAY[one]);
            EXCEPTION
                WHEN data_exception OR program_limit_exceeded OR integrity_constraint_violation OR raise_exception THEN
                    UPDATE peal.job AS j SET small_size = NULL WHERE j.id = one;
            END;
        END LOOP;
    END;
    IF batches > 0 THEN
        PERFORM pg_notify('peal_batch', of_lane);
    END IF;
END
$$;

-- Freezes and publishes small jobs that the caller has locked. Returns how many batches they became.
CREATE FUNCTION peal.publish_small(of_lane text, picked uuid[]) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at constant timestamptz := clock_timestamp();
    batches integer;
BEGIN
    WITH resolved AS MATERIALIZED (
        SELECT j.id AS job_id, r.device_id, r.route, r.external_id, r.reason
        FROM peal.job AS j
        CROSS JOIN LATERAL peal.resolve_named(j.app_id, j.audience) AS r
        WHERE j.id = ANY (picked)
    ),
    numbered AS (
        SELECT r.job_id, r.device_id, r.route, (row_number() OVER (
            PARTITION BY r.job_id, r.route ORDER BY r.device_id
        ) - 1) / peal.page_size(0) AS part
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
            SELECT t.app_id, min(t.slot) AS slot, coalesce(min(a.weight), 100) AS weight, sum(t.recipients)::bigint AS recipients
            FROM totals AS t
            LEFT JOIN peal.app AS a ON a.id = t.app_id
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
    RETURN batches;
END
$$;
