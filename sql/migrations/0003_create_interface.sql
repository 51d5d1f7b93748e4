-- What outsiders use: the checks of an INSERT into peal.job, the functions, the views and the roles. See docs/sql.md.

-- Raises the error of a bad field. The message begins with the field's path, the hint says what to do.
CREATE FUNCTION peal.refuse(message text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = message;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = message, HINT = hint;
END
$$;

-- Refuses a key of an object that is not among the known ones: a misspelt key must not be ignored.
CREATE FUNCTION peal.check_keys(path text, object jsonb, known text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unknown text;
BEGIN
    SELECT key INTO unknown FROM jsonb_object_keys(object) AS key WHERE key <> ALL (known) ORDER BY key LIMIT 1;
    IF unknown IS NOT NULL THEN
        PERFORM peal.refuse(
            format('%s.%s is not a known key', path, unknown), format('Known keys: %s.', array_to_string(known, ', '))
        );
    END IF;
END
$$;

-- Refuses what is not a non-empty array of text of at most `most` entries. NULL passes.
CREATE FUNCTION peal.check_text_array(path text, list jsonb, most integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF list IS NULL THEN
        RETURN;
    ELSIF jsonb_typeof(list) <> 'array' THEN
        PERFORM peal.refuse(format('%s must be an array of text, found %s', path, jsonb_typeof(list)));
    ELSIF jsonb_array_length(list) = 0 THEN
        PERFORM peal.refuse(format('%s is empty', path), 'Name at least one, or leave the key out.');
    ELSIF jsonb_array_length(list) > most THEN
        PERFORM peal.refuse(
            format('%s has %s entries, the limit is %s', path, jsonb_array_length(list), most),
            'Split the send, or use a segment.'
        );
    ELSIF EXISTS (
        SELECT FROM jsonb_array_elements(list) AS entry
        WHERE jsonb_typeof(entry) <> 'string' OR entry #>> '{}' = ''
    ) THEN
        PERFORM peal.refuse(format('%s must hold text that is not empty', path));
    ELSIF EXISTS (SELECT FROM jsonb_array_elements_text(list) AS entry WHERE octet_length(entry) > 1024) THEN
        PERFORM peal.refuse(format('%s holds a text of more than 1024 bytes, which nothing here is as long as', path));
    END IF;
END
$$;

-- A filter as the SQL condition on a row of peal.device called d. All values are quoted literals.
-- An object joins its keys by AND. A key is `any` or `all` (arrays of filters), `not` (a filter), `tag.NAME`, or a
-- field; the value is the wanted one, or an object of operators: eq, ne, in, exists, gt, gte, lt, lte, prefix.
CREATE FUNCTION peal.filter_condition(filter jsonb, path text DEFAULT 'filter', depth integer DEFAULT 0) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    conditions text[] := '{}';
    parts text[];
    entry record;
    part record;
BEGIN
    IF jsonb_typeof(filter) IS DISTINCT FROM 'object' THEN
        PERFORM peal.refuse(format('%s must be an object, found %s', path, coalesce(jsonb_typeof(filter), 'nothing')));
    ELSIF filter = '{}' THEN
        PERFORM peal.refuse(format('%s is empty', path), 'To address every device use {"all": true}.');
    ELSIF depth > 8 THEN
        PERFORM peal.refuse(format('%s is nested more than 8 deep', path));
    ELSIF depth = 0 AND octet_length(filter::text) > 65536 THEN
        -- A larger one takes seconds to plan, in which its app would hold up the others.
        PERFORM peal.refuse(
            format('%s is %s bytes, the limit is 65536', path, octet_length(filter::text)), 'Use a tag or a segment.'
        );
    END IF;
    FOR entry IN SELECT key, value FROM jsonb_each(filter) LOOP
        IF entry.key IN ('any', 'all') THEN
            IF jsonb_typeof(entry.value) <> 'array' OR jsonb_array_length(entry.value) NOT BETWEEN 1 AND 200 THEN
                PERFORM peal.refuse(format('%s.%s must be an array of 1 to 200 filters', path, entry.key));
            END IF;
            parts := '{}';
            FOR part IN SELECT value, ordinality FROM jsonb_array_elements(entry.value) WITH ORDINALITY LOOP
                parts := parts || peal.filter_condition(
                    part.value, format('%s.%s[%s]', path, entry.key, part.ordinality - 1), depth + 1
                );
            END LOOP;
            conditions := conditions || format(
                '(%s)', array_to_string(parts, CASE entry.key WHEN 'any' THEN ' OR ' ELSE ' AND ' END)
            );
        ELSIF entry.key = 'not' THEN
            conditions := conditions
                || format('(%s) IS NOT TRUE', peal.filter_condition(entry.value, path || '.not', depth + 1));
        ELSE
            conditions := conditions || peal.filter_term(entry.key, entry.value, path);
        END IF;
    END LOOP;
    RETURN '(' || array_to_string(conditions, ' AND ') || ')';
END
$$;

-- One key of a filter: a field or tag and what it must be.
CREATE FUNCTION peal.filter_term(key text, wanted jsonb, path text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    fields constant text[] := ARRAY[
        'channel', 'environment', 'external_id', 'installation_id', 'locale', 'language', 'timezone',
        'app_version', 'os_version', 'model', 'registered_at', 'created_at'
    ];
    operators constant text[] := ARRAY['eq', 'ne', 'in', 'exists', 'gt', 'gte', 'lt', 'lte', 'prefix'];
    conditions text[] := '{}';
    operator record;
BEGIN
    path := path || '.' || key;
    IF left(key, 4) = 'tag.' THEN
        IF length(key) = 4 THEN
            PERFORM peal.refuse(format('%s names no tag', path), 'Write tag.NAME.');
        END IF;
    ELSIF key <> ALL (fields) THEN
        PERFORM peal.refuse(
            format('%s is not a known key', path),
            format('Use any, all, not, tag.NAME or a field: %s.', array_to_string(fields, ', '))
        );
    END IF;
    IF jsonb_typeof(wanted) <> 'object' THEN
        RETURN peal.filter_comparison(key, 'eq', wanted, path);
    ELSIF wanted = '{}' THEN
        PERFORM peal.refuse(format('%s names no operator', path));
    END IF;
    FOR operator IN SELECT o.key AS name, o.value FROM jsonb_each(wanted) AS o LOOP
        IF operator.name <> ALL (operators) THEN
            PERFORM peal.refuse(
                format('%s.%s is not a known operator', path, operator.name),
                format('Known operators: %s.', array_to_string(operators, ', '))
            );
        END IF;
        conditions := conditions
            || peal.filter_comparison(key, operator.name, operator.value, path || '.' || operator.name);
    END LOOP;
    RETURN '(' || array_to_string(conditions, ' AND ') || ')';
END
$$;

-- One comparison of a filter. Tags compare by type: numbers as numbers, text as text.
CREATE FUNCTION peal.filter_comparison(key text, operator text, wanted jsonb, path text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_tag constant boolean := left(key, 4) = 'tag.';
    tag constant text := substr(key, 5);
    is_time constant boolean := key IN ('registered_at', 'created_at');
    type constant text := jsonb_typeof(wanted);
    symbol constant text := CASE operator WHEN 'gt' THEN '>' WHEN 'gte' THEN '>=' WHEN 'lt' THEN '<' ELSE '<=' END;
    expression text;
    literal text;
    parts text[] := '{}';
    entry jsonb;
BEGIN
    expression := CASE
        WHEN is_tag THEN format('(d.tags ->> %L)', tag)
        WHEN key = 'language' THEN 'lower(split_part(replace(d.locale, ''_'', ''-''), ''-'', 1))'
        ELSE format('d.%I', key)
    END;
    IF operator = 'exists' THEN
        IF type <> 'boolean' THEN
            PERFORM peal.refuse(format('%s must be true or false, found %s', path, type));
        END IF;
        RETURN format('%s IS %s', expression, CASE WHEN wanted = 'true' THEN 'NOT NULL' ELSE 'NULL' END);
    ELSIF operator = 'in' THEN
        IF type <> 'array' OR jsonb_array_length(wanted) NOT BETWEEN 1 AND 1000 THEN
            PERFORM peal.refuse(format('%s must be an array of 1 to 1000 values', path));
        END IF;
        FOR entry IN SELECT value FROM jsonb_array_elements(wanted) LOOP
            parts := parts || peal.filter_comparison(key, 'eq', entry, path);
        END LOOP;
        RETURN '(' || array_to_string(parts, ' OR ') || ')';
    ELSIF operator = 'ne' THEN
        RETURN format('%s IS NOT TRUE', peal.filter_comparison(key, 'eq', wanted, path));
    ELSIF type NOT IN ('string', 'number', 'boolean') THEN
        PERFORM peal.refuse(format('%s must be text, a number or true or false, found %s', path, type));
    ELSIF NOT is_tag AND type <> 'string' THEN
        PERFORM peal.refuse(format('%s must be text, found %s', path, type));
    END IF;
    IF is_time THEN
        BEGIN
            literal := format('%L::timestamptz', (wanted #>> '{}')::timestamptz);
        EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow OR invalid_parameter_value THEN
            PERFORM peal.refuse(format('%s is not a time', path), 'Write it like 2026-03-02T10:00:00Z.');
        END;
    ELSE
        literal := quote_literal(wanted #>> '{}');
    END IF;
    IF operator = 'eq' THEN
        IF is_tag THEN
            RETURN format('d.tags @> %L::jsonb', jsonb_build_object(tag, wanted));
        END IF;
        RETURN format('%s = %s', expression, CASE WHEN key = 'language' THEN lower(literal) ELSE literal END);
    ELSIF operator = 'prefix' THEN
        IF type <> 'string' OR is_time THEN
            PERFORM peal.refuse(format('%s works on text alone', path));
        END IF;
        RETURN format('starts_with(%s, %s)', expression, literal);
    ELSIF type = 'boolean' THEN
        PERFORM peal.refuse(format('%s cannot compare true or false by order', path));
    ELSIF type = 'number' THEN
        RETURN format(
            'CASE WHEN jsonb_typeof(d.tags -> %L) = ''number'' THEN %s::numeric %s %s ELSE false END',
            tag, expression, symbol, wanted #>> '{}'
        );
    ELSIF key IN ('app_version', 'os_version') THEN
        RETURN format('peal.version_key(%s) %s peal.version_key(%s)', expression, symbol, literal);
    END IF;
    RETURN format('%s %s %s%s', expression, symbol, literal, CASE WHEN is_time THEN '' ELSE ' COLLATE "C"' END);
END
$$;

-- A dotted version as numbers, so that 10.2 is above 9.9. NULL where a part is no number.
CREATE FUNCTION peal.version_key(version text) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN version ~ '^\d{1,9}(\.\d{1,9})*$' THEN string_to_array(version, '.')::integer[]
    END
$$;

-- Refuses an audience that cannot be sent to, and says how many recipients it names one by one (NULL: it names a
-- rule, whose size is known when it is frozen).
CREATE FUNCTION peal.check_audience(app_id integer, audience jsonb) RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known constant text[] := ARRAY[
        'all', 'segments', 'excluded_segments', 'filter', 'external_ids', 'device_ids', 'channels'
    ];
    unknown text;
BEGIN
    IF jsonb_typeof(audience) IS DISTINCT FROM 'object' THEN
        PERFORM peal.refuse(
            format('audience must be an object, found %s', coalesce(jsonb_typeof(audience), 'nothing')),
            'For example {"external_ids": ["user-1"]} or {"all": true}.'
        );
    ELSIF audience ? 'recipients' THEN
        PERFORM peal.refuse('audience.recipients is not supported by this version', 'Use external_ids or device_ids.');
    END IF;
    PERFORM peal.check_keys('audience', audience, known);
    IF NOT audience ?| ARRAY['all', 'segments', 'filter', 'external_ids', 'device_ids'] THEN
        PERFORM peal.refuse(
            'audience names nobody', 'Give one of all, segments, filter, external_ids or device_ids.'
        );
    ELSIF audience ? 'all' AND audience -> 'all' <> 'true' THEN
        PERFORM peal.refuse('audience.all must be true', 'Leave the key out to address fewer.');
    ELSIF audience ? 'all' AND audience ?| ARRAY['segments', 'filter', 'external_ids', 'device_ids'] THEN
        PERFORM peal.refuse(
            'audience.all already means every device', 'Leave out segments, filter, external_ids and device_ids.'
        );
    END IF;
    PERFORM peal.check_text_array('audience.segments', audience -> 'segments', 200);
    PERFORM peal.check_text_array('audience.excluded_segments', audience -> 'excluded_segments', 200);
    PERFORM peal.check_text_array('audience.external_ids', audience -> 'external_ids', 100000);
    PERFORM peal.check_text_array('audience.channels', audience -> 'channels', 2);
    IF audience ? 'channels' AND NOT audience -> 'channels' <@ '["ios", "android"]' THEN
        PERFORM peal.refuse('audience.channels may hold ios and android');
    END IF;
    IF audience ? 'device_ids' THEN
        IF jsonb_typeof(audience -> 'device_ids') <> 'array' THEN
            PERFORM peal.refuse('audience.device_ids must be an array of numbers');
        ELSIF jsonb_array_length(audience -> 'device_ids') NOT BETWEEN 1 AND 100000 THEN
            PERFORM peal.refuse('audience.device_ids must hold 1 to 100000 numbers');
        ELSIF EXISTS (
            SELECT FROM jsonb_array_elements(audience -> 'device_ids') AS entry
            WHERE jsonb_typeof(entry) <> 'number' OR entry #>> '{}' !~ '^[1-9][0-9]{0,17}$'
        ) THEN
            PERFORM peal.refuse('audience.device_ids must hold whole numbers above 0');
        END IF;
    END IF;
    SELECT wanted.name INTO unknown
    FROM jsonb_array_elements_text(
        coalesce(audience -> 'segments', '[]') || coalesce(audience -> 'excluded_segments', '[]')
    ) AS wanted (name)
    WHERE NOT EXISTS (
        SELECT FROM peal.segment AS s WHERE s.app_id = check_audience.app_id AND s.name = wanted.name
    )
    LIMIT 1;
    IF unknown IS NOT NULL THEN
        PERFORM peal.refuse(
            format(
                'audience.%s: the app has no segment called "%s"',
                CASE WHEN audience -> 'segments' ? unknown THEN 'segments' ELSE 'excluded_segments' END, unknown
            ),
            'Insert it into peal.segment first.'
        );
    END IF;
    IF audience ? 'filter' THEN
        PERFORM peal.filter_condition(audience -> 'filter', 'audience.filter');
    END IF;
    IF audience ?| ARRAY['all', 'segments', 'filter'] THEN
        RETURN NULL;
    END IF;
    RETURN coalesce(jsonb_array_length(audience -> 'external_ids'), 0)
        + coalesce(jsonb_array_length(audience -> 'device_ids'), 0);
END
$$;

-- Checks a new job and fills in what its row leaves out. Runs as the owner, so that a producer needs no right beyond
-- the INSERT itself.
CREATE FUNCTION peal.prepare_job() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    app peal.app;
    named integer;
    at timestamptz := clock_timestamp();
    provider text;
    bytes integer;
BEGIN
    SELECT a.* INTO app FROM peal.app AS a WHERE a.slug = NEW.app;
    IF app.id IS NULL THEN
        PERFORM peal.refuse(
            format('app: there is no app called "%s"', coalesce(NEW.app, '')), 'Make it with: peal app create SLUG'
        );
    END IF;
    IF NEW.kind IS DISTINCT FROM 'push' THEN
        PERFORM peal.refuse(
            CASE WHEN NEW.kind = 'call' THEN 'kind: calls are not supported by this version'
            ELSE format('kind must be push, found "%s"', NEW.kind) END
        );
    ELSIF NEW.lane NOT IN ('call', 'transactional', 'campaign') THEN
        PERFORM peal.refuse(format('lane must be call, transactional or campaign, found "%s"', NEW.lane));
    ELSIF NEW.on_doubt IS NULL OR NEW.on_doubt NOT IN ('resend', 'unknown') THEN
        PERFORM peal.refuse(format('on_doubt must be resend or unknown, found "%s"', NEW.on_doubt));
    ELSIF NEW.ttl NOT BETWEEN 0 AND 2419200 THEN
        PERFORM peal.refuse(
            format('ttl must be 0 to 2419200 seconds (28 days, the longest that FCM keeps), found %s', NEW.ttl)
        );
    ELSIF NEW.send_at = 'infinity' OR NEW.send_at > at + interval '1 year' THEN
        PERFORM peal.refuse('send_at is more than a year ahead');
    ELSIF NEW.idempotency_key IS NOT NULL AND length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 THEN
        PERFORM peal.refuse('idempotency_key must be 1 to 255 characters');
    ELSIF NEW.throttle_per_second IS NOT NULL THEN
        PERFORM peal.refuse('throttle_per_second is not supported by this version', 'Leave it out.');
    ELSIF NEW.local_time IS NOT NULL THEN
        PERFORM peal.refuse('local_time is not supported by this version', 'Leave it out and use send_at.');
    END IF;
    PERFORM peal.check_collapse_id(NEW.collapse_id);
    named := peal.check_audience(app.id, NEW.audience);
    PERFORM peal.check_content(NEW.kind, NEW.content);
    FOREACH provider IN ARRAY ARRAY['apns', 'fcm'] LOOP
        CONTINUE WHEN NEW.audience ? 'channels' AND NOT NEW.audience -> 'channels'
            ? CASE provider WHEN 'apns' THEN 'ios' ELSE 'android' END;
        bytes := peal.payload_bytes(NEW.content, provider, NEW.collapse_id);
        IF bytes > 4096 THEN
            PERFORM peal.refuse(
                format('content: its %s payload would be %s bytes, the limit is 4096', provider, bytes),
                'Shorten the text or the data; the limit counts UTF-8 bytes of the final JSON.'
            );
        END IF;
    END LOOP;

    NEW.id := coalesce(NEW.id, peal.uuid_v7());
    NEW.lane := coalesce(NEW.lane, CASE WHEN named <= 1000 THEN 'transactional' ELSE 'campaign' END);
    NEW.ttl := coalesce(NEW.ttl, app.default_ttl);
    -- What is internal begins as it must, whoever inserts.
    NEW.started_at := NULL;
    NEW.completed_at := NULL;
    NEW.paused_at := NULL;
    NEW.cancelled_at := NULL;
    NEW.failure := NULL;
    NEW.audience_at := NULL;
    NEW.frozen_at := NULL;
    NEW.freeze_cursor := 0;
    NEW.audience_count := 0;
    NEW.page_count := 0;
    NEW.published_pages := 0;
    NEW.lease_until := '-infinity';
    NEW.lease_token := NULL;
    NEW.app_id := app.id;
    NEW.slot := app.slot;
    NEW.queued_at := at;
    NEW.send_at := greatest(coalesce(NEW.send_at, at), at);
    NEW.state := CASE WHEN NEW.send_at > at THEN 'scheduled' ELSE 'available' END;
    -- A ttl of 0 asks the provider to keep nothing; the send itself still needs a moment to go out.
    NEW.expires_at := NEW.send_at + make_interval(secs => CASE NEW.ttl WHEN 0 THEN 30 ELSE NEW.ttl END);
    IF NEW.state = 'available' AND NEW.lane <> 'campaign' THEN
        PERFORM pg_notify('peal_job', NEW.lane);
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER prepare_job BEFORE INSERT ON peal.job FOR EACH ROW EXECUTE FUNCTION peal.prepare_job();

-- Refuses a bad filter of a segment when it is written, not when it is sent to.
CREATE FUNCTION peal.check_segment() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM peal.filter_condition(NEW.filter);
    RETURN NEW;
END
$$;

CREATE TRIGGER check_segment BEFORE INSERT OR UPDATE ON peal.segment
FOR EACH ROW EXECUTE FUNCTION peal.check_segment();

-- What is left of a job, counted from what is there: pages not yet published, unset bits of batches, delayed batches.
-- Runs as the owner, for the readers of peal.job_status.
CREATE FUNCTION peal.job_remaining(job peal.job) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce((
        SELECT sum(p.size) FROM peal.audience_page AS p
        WHERE p.job_id = job.id AND p.audience_at = job.audience_at AND p.page_no >= job.published_pages
    ), 0) + coalesce((
        SELECT sum(b.size - bit_count(b.done)) FROM peal.batch AS b
        WHERE b.slot = job.slot AND b.lane = peal.lane_number(job.lane) AND b.job_id = job.id
    ), 0) + coalesce((
        SELECT sum(d.size - bit_count(d.done)) FROM peal.batch_delayed AS d WHERE d.job_id = job.id
    ), 0)
$$;

CREATE VIEW peal.job_status AS
SELECT
    j.id, j.app, j.kind, j.lane,
    CASE WHEN j.paused_at IS NOT NULL AND j.state IN ('scheduled', 'available', 'running') THEN 'paused'
    ELSE j.state END AS state,
    j.audience_count AS audience,
    s.accepted, s.rejected, s.skipped, s.skipped_by_reason, s.expired, s.superseded, s.cancelled, s.unknown,
    CASE WHEN j.completed_at IS NOT NULL THEN 0 ELSE peal.job_remaining(j) END AS remaining,
    s.by_reason,
    j.failure, j.collapse_id, j.idempotency_key,
    j.queued_at, j.send_at, j.expires_at, j.started_at, j.frozen_at, j.paused_at, j.cancelled_at, j.completed_at
FROM peal.job AS j
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(n) FILTER (WHERE outcome = 1), 0)::bigint AS accepted,
        coalesce(sum(n) FILTER (WHERE outcome = 2), 0)::bigint AS rejected,
        coalesce(sum(n) FILTER (WHERE outcome = 3), 0)::bigint AS skipped,
        coalesce(jsonb_object_agg(reason, n) FILTER (WHERE outcome = 3), '{}') AS skipped_by_reason,
        coalesce(sum(n) FILTER (WHERE outcome = 4), 0)::bigint AS expired,
        coalesce(sum(n) FILTER (WHERE outcome = 5), 0)::bigint AS superseded,
        coalesce(sum(n) FILTER (WHERE outcome = 6), 0)::bigint AS cancelled,
        coalesce(sum(n) FILTER (WHERE outcome = 7), 0)::bigint AS unknown,
        coalesce(
            jsonb_object_agg(peal.outcome_name(outcome) || ':' || reason, n) FILTER (WHERE reason <> ''), '{}'
        ) AS by_reason
    FROM (
        SELECT outcome, reason, sum(n) AS n
        FROM (
            SELECT outcome, reason, n FROM peal.job_stat WHERE job_id = j.id
            UNION ALL
            SELECT outcome, reason, n FROM peal.stat_delta WHERE job_id = j.id
        ) AS counted
        GROUP BY outcome, reason
    ) AS by_kind
) AS s;

CREATE VIEW peal.recipient_result AS
SELECT
    r.job_id, nullif(r.device_id, 0) AS device_id, coalesce(r.external_id, d.external_id) AS external_id,
    peal.route_channel(r.route) AS channel, peal.outcome_name(r.outcome) AS outcome, r.reason, r.http_status,
    coalesce(
        r.provider_id, CASE WHEN r.outcome = 1 AND r.route <> 3 THEN peal.apns_id(r.job_id, r.device_id)::text END
    ) AS provider_id,
    r.provider_unique_id, r.attempt, r.recorded_at
FROM peal.result AS r
LEFT JOIN peal.job AS j ON j.id = r.job_id
LEFT JOIN peal.device AS d ON d.app_id = j.app_id AND d.id = r.device_id;

-- The jobs whose count does not add up (promise 1), with every term from its own source: no row, ever.
-- A job whose results were dropped with their day is checked by its counts alone.
CREATE FUNCTION peal.check_accounting()
RETURNS TABLE (
    job_id uuid, audience bigint, accepted bigint, rejected bigint, skipped bigint, expired bigint,
    superseded bigint, cancelled bigint, unknown bigint, remaining bigint, counted_in_status bigint
)
LANGUAGE sql STABLE
AS $$
    WITH result AS (
        SELECT
            r.job_id,
            count(*) FILTER (WHERE outcome = 1) AS accepted, count(*) FILTER (WHERE outcome = 2) AS rejected,
            count(*) FILTER (WHERE outcome = 3) AS skipped, count(*) FILTER (WHERE outcome = 4) AS expired,
            count(*) FILTER (WHERE outcome = 5) AS superseded, count(*) FILTER (WHERE outcome = 6) AS cancelled,
            count(*) FILTER (WHERE outcome = 7) AS unknown, count(*) AS n
        FROM peal.result AS r GROUP BY r.job_id
    ),
    left_over AS (
        SELECT held.job_id, sum(held.n)::bigint AS n
        FROM (
            SELECT p.job_id, p.size::bigint AS n
            FROM peal.audience_page AS p
            JOIN peal.job AS j ON j.id = p.job_id AND j.audience_at = p.audience_at
            WHERE p.page_no >= j.published_pages
            UNION ALL
            SELECT b.job_id, b.size - bit_count(b.done) FROM peal.batch AS b
            UNION ALL
            SELECT d.job_id, d.size - bit_count(d.done) FROM peal.batch_delayed AS d
        ) AS held
        GROUP BY held.job_id
    ),
    stat AS (
        SELECT counted.job_id, sum(counted.n)::bigint AS n
        FROM (
            SELECT s.job_id, s.n FROM peal.job_stat AS s
            UNION ALL
            SELECT s.job_id, s.n FROM peal.stat_delta AS s
        ) AS counted
        GROUP BY counted.job_id
    ),
    kept AS (
        SELECT min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamp AT TIME ZONE 'UTC' AS since
        FROM pg_catalog.pg_inherits AS i
        JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'peal.result'::regclass
    )
    SELECT
        j.id, j.audience_count, result.accepted, result.rejected, result.skipped, result.expired, result.superseded,
        result.cancelled, result.unknown, coalesce(left_over.n, 0), coalesce(stat.n, 0)
    FROM peal.job AS j
    LEFT JOIN result ON result.job_id = j.id
    LEFT JOIN left_over ON left_over.job_id = j.id
    LEFT JOIN stat ON stat.job_id = j.id
    WHERE j.audience_count <> coalesce(stat.n, 0) + coalesce(left_over.n, 0)
        OR coalesce(stat.n, 0) <> coalesce(result.n, 0) AND (SELECT since FROM kept) <= coalesce(j.audience_at, 'infinity')
$$;

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
    UPDATE peal.job AS j SET paused_at = NULL WHERE j.id = job_id;
    UPDATE peal.batch_delayed AS d SET due_at = coalesce(d.resume_at, now()), resume_at = NULL
    WHERE d.job_id = job.id AND d.due_at = 'infinity';
    PERFORM pg_notify('peal_job', job.lane);
    RETURN job.state;
END
$$;

-- A push token in its one stored form, or the error that names what is wrong with it. NULL stays NULL.
CREATE FUNCTION peal.normalised_token(field text, channel text, token text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    plain text := token;
BEGIN
    IF token IS NULL THEN
        RETURN NULL;
    ELSIF channel = 'ios' THEN
        -- Old clients wrote a token as it is printed, in groups between angle brackets.
        plain := lower(regexp_replace(token, '[<> ]', '', 'g'));
        IF plain !~ '^[0-9a-f]+$' THEN
            PERFORM peal.refuse(
                format('%s is no APNs token: it must be hexadecimal', field),
                'Send the token''s bytes as hex, or set channel to android if it is from FCM.'
            );
        ELSIF length(plain) % 2 = 1 OR length(plain) > 512 THEN
            PERFORM peal.refuse(format('%s is no APNs token: it has %s hex digits', field, length(plain)));
        END IF;
    ELSIF plain !~ '^[!-~]+$' OR length(plain) > 4096 THEN
        PERFORM peal.refuse(format('%s is no FCM token: it must be 1 to 4096 printable characters', field));
    END IF;
    RETURN plain;
END
$$;

-- A time zone name that the server knows, or the error.
CREATE FUNCTION peal.check_timezone(name text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF name IS NOT NULL AND name !~ '^([A-Za-z]+(/[A-Za-z0-9_+-]+)+|UTC)$' THEN
        PERFORM peal.refuse(format('timezone must be an IANA name such as Europe/Berlin, found "%s"', name));
    END IF;
    PERFORM now() AT TIME ZONE name;
    RETURN name;
EXCEPTION WHEN invalid_parameter_value THEN
    PERFORM peal.refuse(format('timezone must be an IANA name such as Europe/Berlin, found "%s"', name));
END
$$;

-- Registers a device, or refreshes it: found by its installation id, else by its token. Returns its id.
-- A token keeps its device for ever, whoever brings it: so it is met once while an audience is frozen.
CREATE FUNCTION peal.register_device(app text, device jsonb) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known constant text[] := ARRAY[
        'channel', 'token', 'voip_token', 'environment', 'installation_id', 'external_id', 'tags', 'locale',
        'timezone', 'app_version', 'os_version', 'model'
    ];
    owner integer;
    wrong text;
    new peal.device;
    holder bigint;
    installed bigint;
BEGIN
    SELECT a.id INTO owner FROM peal.app AS a WHERE a.slug = register_device.app;
    IF owner IS NULL THEN
        PERFORM peal.refuse(format('app: there is no app called "%s"', app), 'Make it with: peal app create SLUG');
    ELSIF jsonb_typeof(device) IS DISTINCT FROM 'object' THEN
        PERFORM peal.refuse('device must be an object');
    END IF;
    PERFORM peal.check_keys('device', device, known);
    SELECT key INTO wrong FROM jsonb_each(device)
    WHERE key <> 'tags' AND (jsonb_typeof(value) NOT IN ('string', 'null') OR value #>> '{}' = '')
    ORDER BY key LIMIT 1;
    IF wrong IS NOT NULL THEN
        PERFORM peal.refuse(format('device.%s must be text that is not empty', wrong));
    END IF;
    -- Ids are in indexes, whose entries have an end.
    SELECT key INTO wrong FROM jsonb_each_text(device)
    WHERE key IN ('external_id', 'installation_id') AND octet_length(value) > 1024
    ORDER BY key LIMIT 1;
    IF wrong IS NOT NULL THEN
        PERFORM peal.refuse(format('device.%s is longer than 1024 bytes', wrong));
    ELSIF coalesce(device ->> 'channel', '') NOT IN ('ios', 'android') THEN
        PERFORM peal.refuse(format('device.channel must be ios or android, found "%s"', device ->> 'channel'));
    ELSIF coalesce(device ->> 'environment', 'production') NOT IN ('production', 'sandbox') THEN
        PERFORM peal.refuse('device.environment must be production or sandbox');
    ELSIF jsonb_typeof(coalesce(device -> 'tags', '{}')) NOT IN ('object', 'null') THEN
        PERFORM peal.refuse('device.tags must be an object');
    ELSIF coalesce(device ->> 'token', device ->> 'voip_token') IS NULL THEN
        PERFORM peal.refuse('device.token is missing');
    ELSIF device ->> 'channel' <> 'ios' AND device ->> 'voip_token' IS NOT NULL THEN
        PERFORM peal.refuse('device.voip_token belongs to ios alone');
    END IF;
    new.token := peal.normalised_token('device.token', device ->> 'channel', device ->> 'token');
    new.voip_token := peal.normalised_token('device.voip_token', 'ios', device ->> 'voip_token');
    PERFORM peal.check_timezone(device ->> 'timezone');

    -- Registrations of one token, or of one installation, go one after the other.
    PERFORM pg_advisory_xact_lock(k) FROM (
        SELECT DISTINCT hashtextextended(owner || ':' || key, 0) AS k
        FROM unnest(ARRAY['t' || new.token, 'v' || new.voip_token, 'i' || (device ->> 'installation_id')]) AS key
        WHERE key IS NOT NULL
        ORDER BY 1
    ) AS keys;
    -- Two that swap tokens and installations meet at the same rows: in the order of their ids.
    PERFORM FROM peal.device AS d
    WHERE d.app_id = owner AND d.id = ANY (ARRAY(
        SELECT t.id FROM peal.device AS t
        WHERE t.app_id = owner AND t.channel = device ->> 'channel' AND md5(t.token)::uuid = md5(new.token)::uuid
        UNION ALL
        SELECT i.id FROM peal.device AS i
        WHERE i.app_id = owner AND i.installation_id = device ->> 'installation_id'
        UNION ALL
        SELECT v.id FROM peal.device AS v
        WHERE v.app_id = owner AND md5(v.voip_token)::uuid = md5(new.voip_token)::uuid
    ))
    ORDER BY d.id
    FOR UPDATE;
    SELECT d.id INTO holder FROM peal.device AS d
    WHERE d.app_id = owner AND d.channel = device ->> 'channel' AND md5(d.token)::uuid = md5(new.token)::uuid
        AND d.token = new.token;
    SELECT d.id INTO installed FROM peal.device AS d
    WHERE d.app_id = owner AND d.installation_id = device ->> 'installation_id';
    IF holder <> installed THEN
        DELETE FROM peal.device AS d WHERE d.app_id = owner AND d.id = installed;
    END IF;
    holder := coalesce(holder, installed);
    UPDATE peal.device AS d SET voip_token = NULL, voip_registered_at = NULL
    WHERE d.app_id = owner AND md5(d.voip_token)::uuid = md5(new.voip_token)::uuid AND d.id IS DISTINCT FROM holder
        AND d.token IS NOT NULL;
    DELETE FROM peal.device AS d
    WHERE d.app_id = owner AND md5(d.voip_token)::uuid = md5(new.voip_token)::uuid AND d.id IS DISTINCT FROM holder;

    IF holder IS NULL THEN
        INSERT INTO peal.device (
            app_id, channel, environment, token, voip_token, installation_id, external_id, tags, locale, timezone,
            app_version, os_version, model, voip_registered_at
        )
        VALUES (
            owner, device ->> 'channel', coalesce(device ->> 'environment', 'production'), new.token, new.voip_token,
            device ->> 'installation_id', device ->> 'external_id',
            coalesce(nullif(device -> 'tags', 'null'), '{}'), device ->> 'locale', device ->> 'timezone',
            device ->> 'app_version', device ->> 'os_version', device ->> 'model',
            CASE WHEN new.voip_token IS NOT NULL THEN now() END
        )
        RETURNING id INTO holder;
        RETURN holder;
    END IF;
    -- A key that is left out keeps its value; a key that is null clears it.
    UPDATE peal.device AS d SET
        channel = device ->> 'channel',
        environment = coalesce(device ->> 'environment', d.environment),
        token = CASE WHEN device ? 'token' THEN new.token ELSE d.token END,
        -- An installation that went over to android has none.
        voip_token = CASE WHEN device ? 'voip_token' OR device ->> 'channel' <> 'ios' THEN new.voip_token
            ELSE d.voip_token END,
        installation_id = CASE WHEN device ? 'installation_id' THEN device ->> 'installation_id'
            ELSE d.installation_id END,
        external_id = CASE WHEN device ? 'external_id' THEN device ->> 'external_id' ELSE d.external_id END,
        tags = CASE WHEN device ? 'tags' THEN coalesce(nullif(device -> 'tags', 'null'), '{}') ELSE d.tags END,
        locale = CASE WHEN device ? 'locale' THEN device ->> 'locale' ELSE d.locale END,
        timezone = CASE WHEN device ? 'timezone' THEN device ->> 'timezone' ELSE d.timezone END,
        app_version = CASE WHEN device ? 'app_version' THEN device ->> 'app_version' ELSE d.app_version END,
        os_version = CASE WHEN device ? 'os_version' THEN device ->> 'os_version' ELSE d.os_version END,
        model = CASE WHEN device ? 'model' THEN device ->> 'model' ELSE d.model END,
        registered_at = CASE WHEN new.token IS NOT NULL THEN now() ELSE d.registered_at END,
        voip_registered_at = CASE WHEN new.voip_token IS NOT NULL THEN now()
            WHEN device ->> 'channel' = 'ios' THEN d.voip_registered_at END,
        disabled_at = CASE WHEN new.token IS NULL THEN d.disabled_at END,
        disabled_reason = CASE WHEN new.token IS NULL THEN d.disabled_reason END,
        updated_at = now()
    WHERE d.app_id = owner AND d.id = holder;
    RETURN holder;
END
$$;

-- Removes devices by `device_id`, `installation_id` or `token` (with `channel`), or every device of an
-- `external_id`. Returns how many. Exactly one of the four.
CREATE FUNCTION peal.unregister_device(app text, device jsonb) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner integer;
    removed integer;
BEGIN
    SELECT a.id INTO owner FROM peal.app AS a WHERE a.slug = unregister_device.app;
    IF owner IS NULL THEN
        PERFORM peal.refuse(format('app: there is no app called "%s"', app));
    ELSIF jsonb_typeof(device) IS DISTINCT FROM 'object' THEN
        PERFORM peal.refuse('device must be an object');
    END IF;
    PERFORM peal.check_keys(
        'device', device, ARRAY['device_id', 'installation_id', 'external_id', 'token', 'channel']
    );
    IF (SELECT count(*) FROM jsonb_object_keys(device) AS key WHERE key <> 'channel') <> 1 THEN
        PERFORM peal.refuse('device must name exactly one of device_id, installation_id, external_id or token');
    ELSIF EXISTS (
        SELECT FROM jsonb_each_text(device) WHERE coalesce(value, '') IN ('', '(null)', 'null', 'undefined')
    ) THEN
        PERFORM peal.refuse('device names nothing: the value is empty');
    ELSIF device ? 'device_id' AND device ->> 'device_id' !~ '^[1-9][0-9]{0,17}$' THEN
        PERFORM peal.refuse('device.device_id must be a whole number above 0');
    ELSIF device ? 'token' AND coalesce(device ->> 'channel', '') NOT IN ('ios', 'android') THEN
        PERFORM peal.refuse('device.channel must be ios or android where a token is named');
    END IF;
    DELETE FROM peal.device AS d
    WHERE d.app_id = owner AND CASE
        WHEN device ? 'device_id' THEN d.id = (device ->> 'device_id')::bigint
        WHEN device ? 'installation_id' THEN d.installation_id = device ->> 'installation_id'
        WHEN device ? 'external_id' THEN d.external_id = device ->> 'external_id'
        ELSE d.channel = device ->> 'channel'
            AND d.token = peal.normalised_token('device.token', device ->> 'channel', device ->> 'token')
    END;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;

-- Three rights: to run peal, to ask for sends, to read.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['peal_worker', 'peal_producer', 'peal_reader'] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN
                NULL; -- made by another database of this server at the same moment
            WHEN insufficient_privilege THEN
                RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
                    MESSAGE = format('the role %s is missing, and this user may not make it', role),
                    HINT = 'Run as an administrator: CREATE ROLE peal_worker NOLOGIN; CREATE ROLE peal_producer '
                        'NOLOGIN; CREATE ROLE peal_reader NOLOGIN; then migrate again.';
        END;
    END LOOP;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA peal FROM PUBLIC;
GRANT USAGE ON SCHEMA peal TO peal_worker, peal_producer, peal_reader;

GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA peal TO peal_worker;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA peal TO peal_worker;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA peal TO peal_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA peal GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO peal_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA peal GRANT EXECUTE ON FUNCTIONS TO peal_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA peal REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

GRANT INSERT (
    id, app, kind, lane, audience, content, send_at, ttl, collapse_id, idempotency_key, throttle_per_second, on_doubt,
    local_time
) ON peal.job TO peal_producer;
GRANT SELECT (id, idempotency_key) ON peal.job TO peal_producer;
GRANT SELECT ON peal.job_status TO peal_producer, peal_reader;
GRANT SELECT ON peal.recipient_result TO peal_reader;
GRANT EXECUTE ON FUNCTION peal.uuid_v7() TO peal_producer;
GRANT EXECUTE ON FUNCTION
    peal.job_remaining(peal.job), peal.lane_number(text), peal.outcome_name(smallint)
TO peal_producer, peal_reader;
GRANT EXECUTE ON FUNCTION peal.route_channel(smallint), peal.apns_id(uuid, bigint) TO peal_reader;
