-- Fan-out: a job becomes pages of device ids (freeze) and pages become batches (publish).
--
-- Each function is one short transaction. What takes time (finding the devices) comes first and locks nothing; then the
-- job's row is locked under the lease token, and all that is written hangs on that lock: a fan-out that lost its lease,
-- or whose job was paused or cancelled in between, writes nothing.

ALTER TABLE peal.job
    -- Devices and refusals that the named ids of a mixed audience led to, while the rest is being frozen.
    ADD COLUMN named_device_ids bigint[],
    -- The highest device id when the rule of the audience began to be read: devices that come later are not in it.
    ADD COLUMN freeze_bound bigint,
    -- Recipients of the audience that left the frozen pages, or never were in one: they are in batches, or have results.
    ADD COLUMN released_count bigint NOT NULL DEFAULT 0;

-- Jobs with fan-out work left, first those that waited longest for it. Every claim names one lane.
CREATE INDEX job_fanout ON peal.job (lane, lease_until, id)
WHERE state IN ('available', 'running') AND paused_at IS NULL AND (frozen_at IS NULL OR published_pages < page_count);

-- Whether a job names all its recipients one by one, and so few that it is frozen and published in one go.
CREATE FUNCTION peal.names_few(audience jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT NOT audience ?| ARRAY['all', 'segments', 'filter', 'excluded_segments']
        AND coalesce(jsonb_array_length(audience -> 'external_ids'), 0)
            + coalesce(jsonb_array_length(audience -> 'device_ids'), 0) <= 1000
$$;

-- Who the named ids of an audience lead to, each once, in one snapshot. A reason means skipped:
-- an unknown external id stands as device 0 with its text, an unknown device id as itself.
CREATE FUNCTION peal.resolve_named(of_app integer, audience jsonb)
RETURNS TABLE (device_id bigint, route smallint, external_id text, reason text)
LANGUAGE sql STABLE
AS $$
    SELECT
        coalesce(d.id, 0), coalesce(d.route, 0::smallint), CASE WHEN d.id IS NULL THEN named.id END,
        CASE
            WHEN d.id IS NULL THEN 'unknown_external_id'
            WHEN NOT coalesce(audience -> 'channels' ? d.channel, true) THEN 'not_in_channels'
            WHEN d.disabled_at IS NOT NULL THEN 'disabled'
            WHEN d.token IS NULL THEN 'no_token'
        END
    FROM jsonb_array_elements_text(audience -> 'external_ids') AS named (id)
    LEFT JOIN peal.device AS d ON d.app_id = of_app AND d.external_id = named.id
    UNION
    SELECT
        named.id::bigint, coalesce(d.route, 0::smallint), NULL,
        CASE
            WHEN d.id IS NULL THEN 'unknown_device_id'
            WHEN NOT coalesce(audience -> 'channels' ? d.channel, true) THEN 'not_in_channels'
            WHEN d.disabled_at IS NOT NULL THEN 'disabled'
            WHEN d.token IS NULL THEN 'no_token'
        END
    FROM jsonb_array_elements_text(audience -> 'device_ids') AS named (id)
    LEFT JOIN peal.device AS d ON d.app_id = of_app AND d.id = named.id::bigint
$$;

-- The filters of an app's segments, joined by OR, as a condition on d. NULL for no names.
-- A segment that is gone is an error: leaving it out would send to the wrong people.
CREATE FUNCTION peal.segments_condition(of_app integer, names jsonb, path text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    conditions text[] := '{}';
    wanted record;
BEGIN
    IF names IS NULL THEN
        RETURN NULL;
    END IF;
    FOR wanted IN
        SELECT DISTINCT entry.name, s.filter
        FROM jsonb_array_elements_text(names) AS entry (name)
        LEFT JOIN peal.segment AS s ON s.app_id = of_app AND s.name = entry.name
    LOOP
        IF wanted.filter IS NULL THEN
            PERFORM peal.refuse(format('%s: the app has no segment called "%s" any more', path, wanted.name));
        END IF;
        conditions := conditions || peal.filter_condition(wanted.filter, format('segment "%s"', wanted.name));
    END LOOP;
    RETURN '(' || array_to_string(conditions, ' OR ') || ')';
END
$$;

-- The rule of an audience (all, segments, filter: any of them matches) as a condition on d, without who is taken
-- away. NULL where the audience has no rule.
CREATE FUNCTION peal.rule_condition(of_app integer, audience jsonb) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    by_filter text;
    by_segment text;
BEGIN
    IF audience ? 'all' THEN
        RETURN 'true';
    END IF;
    IF audience ? 'filter' THEN
        by_filter := peal.filter_condition(audience -> 'filter', 'audience.filter');
    END IF;
    by_segment := peal.segments_condition(of_app, audience -> 'segments', 'audience.segments');
    RETURN CASE
        WHEN by_filter IS NOT NULL AND by_segment IS NOT NULL THEN format('(%s OR %s)', by_filter, by_segment)
        ELSE coalesce(by_filter, by_segment)
    END;
END
$$;

-- The whole condition of an audience's rule on d: its app, whom it takes away, and only those that can be sent to.
-- NULL where the audience has no rule.
CREATE FUNCTION peal.reachable_condition(of_app integer, audience jsonb) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rule text := peal.rule_condition(of_app, audience);
    excluded text := peal.segments_condition(of_app, audience -> 'excluded_segments', 'audience.excluded_segments');
    condition text;
BEGIN
    IF rule IS NULL THEN
        RETURN NULL;
    END IF;
    condition := format('d.app_id = %s AND d.disabled_at IS NULL AND d.token IS NOT NULL', of_app);
    IF audience -> 'channels' <> '["ios", "android"]' AND jsonb_array_length(audience -> 'channels') = 1 THEN
        condition := condition || format(' AND d.channel = %L', audience #>> '{channels,0}');
    END IF;
    IF rule <> 'true' THEN
        condition := condition || ' AND ' || rule;
    END IF;
    IF excluded IS NOT NULL THEN
        condition := condition || format(' AND (%s) IS NOT TRUE', excluded);
    END IF;
    RETURN condition;
END
$$;

-- How many devices the planner expects to meet a condition on d.
CREATE FUNCTION peal.estimated_devices(condition text) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) SELECT FROM peal.device AS d WHERE ' || condition INTO plan;
    RETURN (plan #>> '{0,Plan,Plan Rows}')::numeric::bigint;
END
$$;

-- Takes jobs of a lane that have fan-out work and nobody who does it, those that waited longest first.
-- An expired lease is simply taken again.
CREATE FUNCTION peal.claim_jobs(of_lane text, token uuid, lease interval, most integer)
RETURNS TABLE (job_id uuid, app_id integer, is_frozen boolean)
LANGUAGE sql VOLATILE
AS $$
    UPDATE peal.job AS j SET
        lease_until = now() + lease, lease_token = token, state = 'running',
        started_at = coalesce(j.started_at, clock_timestamp())
    WHERE j.id = ANY (ARRAY(
        SELECT c.id FROM peal.job AS c
        WHERE c.lane = of_lane AND c.lease_until <= now() AND c.state IN ('available', 'running')
            AND c.paused_at IS NULL AND (c.frozen_at IS NULL OR c.published_pages < c.page_count)
        ORDER BY c.lease_until, c.id
        LIMIT most
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING j.id, j.app_id, j.frozen_at IS NOT NULL
$$;

-- Gives up the lease of jobs, and lets no one take them up before the rest is over.
CREATE FUNCTION peal.release_jobs(token uuid, job_ids uuid[], rest interval) RETURNS integer
LANGUAGE sql VOLATILE
AS $$
    WITH released AS (
        UPDATE peal.job AS j SET lease_token = NULL, lease_until = now() + rest
        WHERE j.id = ANY (job_ids) AND j.lease_token = token
        RETURNING 1
    )
    SELECT count(*)::integer FROM released
$$;

-- Writes sorted ids of one route as pages. Returns how many.
CREATE FUNCTION peal.write_pages(
    of_job uuid, at timestamptz, of_route integer, first_page integer, ids bigint[], page_size integer
) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    pages integer := (coalesce(cardinality(ids), 0) + page_size - 1) / page_size;
BEGIN
    INSERT INTO peal.audience_page (job_id, page_no, audience_at, route, size, first_id, last_id, ids)
    SELECT
        of_job, first_page + n, at, of_route, cardinality(slice.ids), slice.ids[1], slice.ids[cardinality(slice.ids)],
        slice.ids
    FROM generate_series(0, pages - 1) AS n
    CROSS JOIN LATERAL (SELECT ids[n * page_size + 1:(n + 1) * page_size] AS ids OFFSET 0) AS slice;
    RETURN pages;
END
$$;

-- Small sends are cut into small pages, so that several workers share them; large ones into full pages.
CREATE FUNCTION peal.page_size(recipients bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN recipients < 10000 THEN 1000 ELSE 5000 END
$$;

-- Ends those of the given jobs whose every recipient has its outcome. A cancelled or discarded job keeps its state.
CREATE FUNCTION peal.complete_jobs(job_ids uuid[]) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    completed integer;
BEGIN
    UPDATE peal.job AS j SET
        completed_at = clock_timestamp(), state = CASE j.state WHEN 'running' THEN 'completed' ELSE j.state END
    WHERE j.id = ANY (ARRAY(
        SELECT c.id FROM peal.job AS c
        WHERE c.id = ANY (job_ids) AND c.completed_at IS NULL AND c.frozen_at IS NOT NULL
            AND c.published_pages = c.page_count AND c.state IN ('running', 'cancelled', 'discarded')
            AND c.audience_count = peal.settled_count(c.id)
        ORDER BY c.id
        FOR NO KEY UPDATE
    ));
    GET DIAGNOSTICS completed = ROW_COUNT;
    RETURN completed;
END
$$;

-- Moves a job's freeze forward by one step: `most` devices of a broad rule, or all of a narrow one, or all named ids.
-- Returns frozen (the audience is final), more, or lost (the lease, or the job's leave to run, is gone: nothing was
-- written), and how many recipients were added.
CREATE FUNCTION peal.freeze_step(
    of_job uuid, token uuid, lease interval, most integer, OUT state text, OUT added bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job peal.job;
    condition text;
BEGIN
    SELECT j.* INTO job FROM peal.job AS j
    WHERE j.id = of_job AND j.lease_token = token AND j.state = 'running' AND j.paused_at IS NULL;
    added := 0;
    IF job.id IS NULL THEN
        state := 'lost';
    ELSIF job.frozen_at IS NOT NULL THEN
        state := 'frozen';
    ELSIF job.audience_at IS NULL AND job.audience ?| ARRAY['external_ids', 'device_ids'] THEN
        SELECT f.state, f.added INTO state, added FROM peal.freeze_named(job, lease) AS f;
    ELSE
        condition := peal.reachable_condition(job.app_id, job.audience);
        SELECT f.state, f.added INTO state, added FROM peal.freeze_rule(job, lease, most, condition) AS f;
    END IF;
END
$$;

-- The step of a freeze that takes up the named ids: those that can be sent to become pages, the others results.
CREATE FUNCTION peal.freeze_named(job peal.job, lease interval, OUT state text, OUT added bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    excluded text := peal.segments_condition(
        job.app_id, job.audience -> 'excluded_segments', 'audience.excluded_segments'
    );
    has_rule boolean := job.audience ?| ARRAY['segments', 'filter'];
    at timestamptz := clock_timestamp();
    ids bigint[];
    routes smallint[];
    external_ids text[];
    reasons text[];
    skipped bigint;
    pages integer := 0;
    of_route integer;
BEGIN
    EXECUTE format(
        'SELECT array_agg(r.device_id), array_agg(r.route), array_agg(r.external_id), array_agg(r.reason) '
        'FROM (SELECT n.device_id, n.route, n.external_id, '
        'CASE WHEN n.reason IS NULL AND (%s) THEN ''excluded'' ELSE n.reason END AS reason '
        'FROM peal.resolve_named($1, $2) AS n '
        'LEFT JOIN peal.device AS d ON d.app_id = $1 AND d.id = n.device_id AND %L ORDER BY n.device_id) AS r',
        coalesce(excluded, 'false'), excluded IS NOT NULL
    )
    INTO ids, routes, external_ids, reasons USING job.app_id, job.audience;

    added := cardinality(ids);
    skipped := cardinality(array_remove(reasons, NULL));
    UPDATE peal.job AS j SET
        lease_until = now() + lease, audience_at = at, audience_count = freeze_named.added, released_count = skipped,
        frozen_at = CASE WHEN NOT has_rule THEN at END,
        named_device_ids = CASE WHEN has_rule THEN array_remove(ids, 0) END
    WHERE j.id = job.id AND j.lease_token = job.lease_token AND j.state = 'running' AND j.paused_at IS NULL
        AND j.audience_at IS NULL;
    IF NOT FOUND THEN
        state := 'lost';
        added := 0;
        RETURN;
    END IF;
    FOR of_route IN SELECT DISTINCT r FROM unnest(routes, reasons) AS u (r, reason) WHERE u.reason IS NULL ORDER BY r LOOP
        pages := pages + peal.write_pages(
            job.id, at, of_route, pages,
            ARRAY(
                SELECT u.id FROM unnest(ids, routes, reasons) AS u (id, route, reason)
                WHERE u.route = of_route AND u.reason IS NULL ORDER BY u.id
            ),
            peal.page_size(added - skipped)
        );
    END LOOP;
    IF skipped > 0 THEN
        INSERT INTO peal.result (job_id, device_id, route, outcome, attempt, reason, external_id)
        SELECT job.id, u.id, u.route, 3, 0, u.reason, u.external_id
        FROM unnest(ids, routes, reasons, external_ids) AS u (id, route, reason, external_id)
        WHERE u.reason IS NOT NULL;
        INSERT INTO peal.stat_delta (job_id, outcome, reason, n)
        SELECT job.id, 3, u.reason, count(*) FROM unnest(reasons) AS u (reason)
        WHERE u.reason IS NOT NULL GROUP BY u.reason;
    END IF;
    UPDATE peal.job AS j SET page_count = pages WHERE j.id = job.id;
    state := CASE WHEN has_rule THEN 'more' ELSE 'frozen' END;
    IF pages = 0 AND NOT has_rule THEN
        PERFORM peal.complete_jobs(ARRAY[job.id]);
    END IF;
END
$$;

-- The step of a freeze that reads the rule: a narrow one is resolved at once through whatever index serves it (paging
-- it by id would read every device of the app), a broad one is read in steps along the devices' ids.
CREATE FUNCTION peal.freeze_rule(
    job peal.job, lease interval, most integer, rule text, OUT state text, OUT added bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at timestamptz := coalesce(job.audience_at, clock_timestamp());
    bound bigint := job.freeze_bound;
    condition text := rule || CASE WHEN job.named_device_ids IS NULL THEN '' ELSE ' AND d.id <> ALL ($3)' END;
    is_narrow boolean := false;
    ids1 bigint[];
    ids2 bigint[];
    ids3 bigint[];
    cursor bigint;
    size integer;
    pages integer := job.page_count;
    is_last boolean;
BEGIN
    IF bound IS NULL THEN
        SELECT coalesce(max(d.id), 0) INTO bound FROM peal.device AS d WHERE d.app_id = job.app_id;
        is_narrow := peal.is_narrow(job.app_id, rule);
    END IF;
    EXECUTE format(
        'SELECT array_agg(s.id) FILTER (WHERE s.route = 1), array_agg(s.id) FILTER (WHERE s.route = 2), '
        'array_agg(s.id) FILTER (WHERE s.route = 3), count(*), max(s.id) FROM (%s) AS s',
        CASE WHEN is_narrow THEN
            -- OFFSET 0 keeps the order out of the plan's reach: walking the key to save a sort is the trap here.
            format(
                'SELECT n.id, n.route FROM (SELECT d.id, d.route FROM peal.device AS d WHERE %s AND d.id <= $2 '
                'OFFSET 0) AS n ORDER BY n.id', condition
            )
        ELSE
            format(
                'SELECT d.id, d.route FROM peal.device AS d WHERE %s AND d.id > $1 AND d.id <= $2 '
                'ORDER BY d.id LIMIT %s', condition, most
            )
        END
    )
    INTO ids1, ids2, ids3, added, cursor USING job.freeze_cursor, bound, job.named_device_ids;

    is_last := is_narrow OR added < most;
    size := CASE WHEN is_last THEN peal.page_size(job.audience_count + added) ELSE 5000 END;
    UPDATE peal.job AS j SET
        lease_until = now() + lease, audience_at = at, freeze_bound = bound,
        freeze_cursor = coalesce(cursor, j.freeze_cursor),
        audience_count = j.audience_count + added,
        page_count = j.page_count + (coalesce(cardinality(ids1), 0) + size - 1) / size
            + (coalesce(cardinality(ids2), 0) + size - 1) / size + (coalesce(cardinality(ids3), 0) + size - 1) / size,
        frozen_at = CASE WHEN is_last THEN clock_timestamp() END,
        named_device_ids = CASE WHEN NOT is_last THEN j.named_device_ids END
    WHERE j.id = job.id AND j.lease_token = job.lease_token AND j.state = 'running' AND j.paused_at IS NULL
        AND j.freeze_cursor = job.freeze_cursor AND j.frozen_at IS NULL;
    IF NOT FOUND THEN
        state := 'lost';
        added := 0;
        RETURN;
    END IF;
    pages := pages + peal.write_pages(job.id, at, 1, pages, ids1, size);
    pages := pages + peal.write_pages(job.id, at, 2, pages, ids2, size);
    PERFORM peal.write_pages(job.id, at, 3, pages, ids3, size);
    state := CASE WHEN is_last THEN 'frozen' ELSE 'more' END;
    IF is_last THEN
        PERFORM peal.complete_jobs(ARRAY[job.id]);
    END IF;
END
$$;

-- Whether a condition on d meets so small a share of an app's devices that one look-up beats reading along the key.
CREATE FUNCTION peal.is_narrow(of_app integer, condition text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    met bigint := peal.estimated_devices(condition);
BEGIN
    RETURN met <= 500000
        AND met * 4 <= peal.estimated_devices(format('d.app_id = %s AND d.token IS NOT NULL', of_app));
END
$$;

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
    room := batches_ahead * greatest(1, (job.audience_count + job.page_count - 1) / job.page_count);
    in_batches := job.released_count - peal.settled_count(job.id);
    IF in_batches > 0 AND in_batches >= room THEN
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

-- How many recipients of a job have their outcome, by the counts.
CREATE FUNCTION peal.settled_count(of_job uuid) RETURNS bigint
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(sum(s.n), 0)::bigint
    FROM (
        SELECT n FROM peal.job_stat WHERE job_id = of_job
        UNION ALL
        SELECT n FROM peal.stat_delta WHERE job_id = of_job
    ) AS s
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
