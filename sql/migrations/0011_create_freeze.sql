-- Fan-out, the first half: a job becomes pages of device ids (freeze). The second half, publishing, is the next file.
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
    ADD COLUMN released_count bigint NOT NULL DEFAULT 0,
    -- How many ids a job names, where it is taken to ready batches in one go with others; NULL: by itself, in steps.
    ADD COLUMN small_size integer,
    -- How often in a row a step of its freeze ran out of time.
    ADD COLUMN freeze_timeouts smallint NOT NULL DEFAULT 0;

-- The stretch of ten seconds in which a job became due, or free.
CREATE FUNCTION peal.due_span(due_at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT date_bin('10 seconds', due_at, '2026-01-01Z'::timestamptz)
$$;

-- The stretches from a moment until now; NULL for none.
CREATE FUNCTION peal.spans_since(since timestamptz) RETURNS timestamptz[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT array_agg(s) FROM generate_series(peal.due_span(since), now(), '10 seconds') AS s
$$;

-- Jobs with fan-out work left, by app, so that each app is found by one look whatever another has waiting; in an app
-- first those that waited longest. Every claim names one lane.
CREATE INDEX job_fanout ON peal.job (lane, app_id, lease_until, id)
WHERE small_size IS NULL AND state IN ('available', 'running') AND paused_at IS NULL
    AND (frozen_at IS NULL OR published_pages < page_count);
-- The same by the time since when nobody works on them: a look at the last ones does not meet what an old snapshot keeps
-- alive of those before. Small jobs likewise, by the time when they became due.
CREATE INDEX job_fanout_young ON peal.job (lane, peal.due_span(lease_until), app_id, lease_until, id)
WHERE small_size IS NULL AND state IN ('available', 'running') AND paused_at IS NULL
    AND (frozen_at IS NULL OR published_pages < page_count);
CREATE INDEX job_small ON peal.job (lane, app_id, id)
WHERE small_size IS NOT NULL AND state = 'available' AND paused_at IS NULL;
CREATE INDEX job_small_young ON peal.job (lane, peal.due_span(send_at), app_id, id)
WHERE small_size IS NOT NULL AND state = 'available' AND paused_at IS NULL;

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
-- The app is a sub-select so that a look-up is planned for an app like any other: of one that had no devices when the
-- statistics were gathered the planner believes that it has one, and reads them all for each id.
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
    -- OFFSET 0 keeps each id a look-up: a join would read all devices of a small app for each of its jobs.
    LEFT JOIN LATERAL (
        SELECT e.id, e.route, e.channel, e.disabled_at, e.token FROM peal.device AS e
        WHERE e.app_id = (SELECT of_app) AND e.external_id = named.id
        OFFSET 0
    ) AS d ON true
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
    LEFT JOIN LATERAL (
        SELECT e.id, e.route, e.channel, e.disabled_at, e.token FROM peal.device AS e
        WHERE e.app_id = (SELECT of_app) AND e.id = named.id::bigint
        OFFSET 0
    ) AS d ON true
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
    IF audience ? 'channels' AND NOT audience -> 'channels' ?& ARRAY['ios', 'android'] THEN
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

-- Apps with jobs of a lane to take up, small ones or those with fan-out work that nobody does: at most so many, in the
-- order of their ids from the given one on and round again. With `span`, only jobs that became due, or free, in that
-- stretch. One look at an index for each app.
CREATE FUNCTION peal.apps_with_jobs(
    of_lane text, are_small boolean, span timestamptz, after_app integer, most integer
) RETURNS SETOF integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at integer := after_app;
    met integer;
    has_wrapped boolean := false;
    n integer := 0;
BEGIN
    WHILE n < most LOOP
        IF are_small AND span IS NULL THEN
            SELECT j.app_id INTO met FROM peal.job AS j
            WHERE j.lane = of_lane AND j.app_id > at
                AND j.small_size IS NOT NULL AND j.state = 'available' AND j.paused_at IS NULL
            ORDER BY j.app_id
            LIMIT 1;
        ELSIF are_small THEN
            SELECT j.app_id INTO met FROM peal.job AS j
            WHERE j.lane = of_lane AND peal.due_span(j.send_at) = span AND j.app_id > at
                AND j.small_size IS NOT NULL AND j.state = 'available' AND j.paused_at IS NULL
            ORDER BY j.app_id
            LIMIT 1;
        ELSIF span IS NULL THEN
            SELECT j.app_id INTO met FROM peal.job AS j
            WHERE j.lane = of_lane AND j.app_id > at AND j.lease_until <= now()
                AND j.small_size IS NULL AND j.state IN ('available', 'running') AND j.paused_at IS NULL
                AND (j.frozen_at IS NULL OR j.published_pages < j.page_count)
            ORDER BY j.app_id
            LIMIT 1;
        ELSE
            SELECT j.app_id INTO met FROM peal.job AS j
            WHERE j.lane = of_lane AND peal.due_span(j.lease_until) = span AND j.app_id > at AND j.lease_until <= now()
                AND j.small_size IS NULL AND j.state IN ('available', 'running') AND j.paused_at IS NULL
                AND (j.frozen_at IS NULL OR j.published_pages < j.page_count)
            ORDER BY j.app_id
            LIMIT 1;
        END IF;
        IF has_wrapped AND coalesce(met > after_app, true) OR met IS NULL AND after_app = 0 THEN
            RETURN;
        ELSIF met IS NULL THEN
            has_wrapped := true;
            at := 0;
        ELSE
            RETURN NEXT met;
            at := met;
            n := n + 1;
        END IF;
    END LOOP;
END
$$;

-- The same over several stretches (NULL: whatever the time), in the order of turns.
CREATE FUNCTION peal.apps_in_turn(
    of_lane text, are_small boolean, spans timestamptz[], after_app integer, most integer
) RETURNS integer[]
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ARRAY(
        SELECT f.app_id
        FROM unnest(coalesce(spans, ARRAY[NULL::timestamptz])) AS span
        CROSS JOIN LATERAL peal.apps_with_jobs(of_lane, are_small, span, after_app, most) AS f (app_id)
        GROUP BY f.app_id
        ORDER BY f.app_id <= after_app, f.app_id
        LIMIT most
    )
$$;

-- Takes jobs of a lane that have fan-out work and nobody who does it, of each app its share, first those that waited
-- longest; beginning with the app after the given one. `full_apps` have enough in hand. An expired lease is simply
-- taken again. `since` looks only at jobs that are free since that moment or later, so that what old snapshots keep alive
-- costs nothing; NULL looks at all.
CREATE FUNCTION peal.claim_jobs(
    of_lane text, token uuid, lease interval, most integer, after_app integer DEFAULT 0,
    full_apps integer[] DEFAULT '{}', since timestamptz DEFAULT NULL
)
RETURNS TABLE (job_id uuid, app_id integer, is_frozen boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
-- A plan that was made while a table was small must not scan it when it has grown.
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    spans constant timestamptz[] := peal.spans_since(since);
    apps integer[];
    share integer;
    chosen uuid[];
BEGIN
    IF most <= 0 THEN
        RETURN;
    END IF;
    apps := ARRAY(
        SELECT a.app_id
        FROM unnest(peal.apps_in_turn(of_lane, false, spans, after_app, most + cardinality(full_apps)))
            WITH ORDINALITY AS a (app_id, place)
        WHERE a.app_id <> ALL (full_apps)
        ORDER BY a.place
    );
    IF apps = '{}' THEN
        RETURN;
    END IF;
    -- A quarter of the room stays free for whoever comes next.
    share := greatest(1, (3 * most + 3) / 4 / cardinality(apps));
    IF spans IS NULL THEN
        chosen := ARRAY(
            SELECT c.id
            FROM unnest(apps) AS a (app_id)
            CROSS JOIN LATERAL (
                SELECT w.id FROM peal.job AS w
                WHERE w.lane = of_lane AND w.app_id = a.app_id AND w.lease_until <= now()
                    AND w.small_size IS NULL AND w.state IN ('available', 'running') AND w.paused_at IS NULL
                    AND (w.frozen_at IS NULL OR w.published_pages < w.page_count)
                ORDER BY w.lease_until, w.id
                LIMIT share
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS c
            LIMIT most
        );
    ELSE
        chosen := ARRAY(
            SELECT c.id
            FROM unnest(apps) AS a (app_id)
            CROSS JOIN LATERAL (
                SELECT y.id
                FROM unnest(spans) AS span
                CROSS JOIN LATERAL (
                    SELECT w.id FROM peal.job AS w
                    WHERE w.lane = of_lane AND peal.due_span(w.lease_until) = span AND w.app_id = a.app_id
                        AND w.lease_until <= now()
                        AND w.small_size IS NULL AND w.state IN ('available', 'running') AND w.paused_at IS NULL
                        AND (w.frozen_at IS NULL OR w.published_pages < w.page_count)
                    ORDER BY w.lease_until, w.id
                    LIMIT share
                    FOR NO KEY UPDATE SKIP LOCKED
                ) AS y
                LIMIT share
            ) AS c
            LIMIT most
        );
    END IF;
    RETURN QUERY
    UPDATE peal.job AS j SET
        lease_until = now() + lease, lease_token = token, state = 'running',
        started_at = coalesce(j.started_at, clock_timestamp())
    WHERE j.id = ANY (chosen)
    RETURNING j.id, j.app_id, j.frozen_at IS NOT NULL;
END
$$;

-- Gives up the lease of jobs, and lets no one take them up before the rest is over.
CREATE FUNCTION peal.release_jobs(token uuid, job_ids uuid[], rest interval) RETURNS integer
LANGUAGE sql VOLATILE
AS $$
    WITH released AS (
        UPDATE peal.job AS j SET lease_token = NULL, lease_until = now() + rest
        WHERE j.id = ANY (ARRAY(
            -- In the order in which everyone who waits for several jobs takes them.
            SELECT c.id FROM peal.job AS c
            WHERE c.id = ANY (job_ids) AND c.lease_token = token
            ORDER BY c.id
            FOR NO KEY UPDATE
        ))
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

-- How many recipients a page has, and so a batch: small sends are cut into small pages, so that several workers share
-- them; large ones, and those whose size is not known yet (NULL), into full pages. The one place where these sizes are.
CREATE FUNCTION peal.page_size(recipients bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN recipients < 10000 THEN 1000 ELSE 5000 END
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
SET jit = off
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
    END IF;
    IF state IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM peal.check_rule(job.app_id, job.audience);
    IF job.audience_at IS NULL AND job.audience ?| ARRAY['external_ids', 'device_ids'] THEN
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
        lease_until = now() + lease, freeze_timeouts = 0,
        audience_at = at, audience_count = freeze_named.added, released_count = skipped,
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
    size := peal.page_size(CASE WHEN is_last THEN job.audience_count + added END);
    UPDATE peal.job AS j SET
        lease_until = now() + lease, audience_at = at, freeze_bound = bound, freeze_timeouts = 0,
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
