-- Refuses values of filters that no device can have, and says of a job's value that it is missing.

-- Refuses a filter with a value that no device can have, so that it would silently match nobody, or everybody. It must be one
-- that peal.filter_condition takes. Asked when a filter is written: one that is stored already goes on as it is.
CREATE FUNCTION peal.check_filter_values(filter jsonb, path text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    entry record;
    part record;
BEGIN
    FOR entry IN SELECT f.key, f.value, path || '.' || f.key AS path FROM jsonb_each(filter) AS f LOOP
        IF entry.key IN ('any', 'all') THEN
            FOR part IN SELECT value, ordinality FROM jsonb_array_elements(entry.value) WITH ORDINALITY LOOP
                PERFORM peal.check_filter_values(part.value, format('%s[%s]', entry.path, part.ordinality - 1));
            END LOOP;
        ELSIF entry.key = 'not' THEN
            PERFORM peal.check_filter_values(entry.value, entry.path);
        ELSIF jsonb_typeof(entry.value) <> 'object' THEN
            PERFORM peal.check_filter_value(entry.key, 'eq', entry.value #>> '{}', entry.path);
        ELSE
            FOR part IN
                SELECT o.key AS operator, v.value, entry.path || '.' || o.key AS path
                FROM jsonb_each(entry.value) AS o
                CROSS JOIN LATERAL jsonb_array_elements_text(
                    CASE o.key WHEN 'in' THEN o.value ELSE jsonb_build_array(o.value) END
                ) AS v
                WHERE o.key <> 'exists'
            LOOP
                PERFORM peal.check_filter_value(entry.key, part.operator, part.value, part.path);
            END LOOP;
        END IF;
    END LOOP;
END
$$;

-- The same of one value.
CREATE FUNCTION peal.check_filter_value(key text, operator text, value text, path text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    words constant text[] := CASE key
        WHEN 'channel' THEN ARRAY['ios', 'android']
        WHEN 'environment' THEN ARRAY['production', 'sandbox']
    END;
BEGIN
    IF words IS NOT NULL THEN
        IF operator = 'prefix' THEN
            IF NOT EXISTS (SELECT FROM unnest(words) AS word WHERE starts_with(word, value)) THEN
                PERFORM peal.refuse(
                    format('%s must begin %s, found "%s"', path, array_to_string(words, ' or '), value)
                );
            END IF;
        ELSIF value <> ALL (words) THEN
            PERFORM peal.refuse(format('%s must be %s, found "%s"', path, array_to_string(words, ' or '), value));
        END IF;
    ELSIF key IN ('registered_at', 'created_at') THEN
        -- As `peal send --at` has it; what is no date at all peal.filter_condition has refused.
        IF value !~ '^\d{4}-\d\d-\d\d[Tt ]([01]\d|2[0-3]):\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$' THEN
            PERFORM peal.refuse(
                format('%s must be a time with its offset, found "%s"', path, value),
                'Write it like 2026-03-02T10:00:00Z.'
            );
        END IF;
    ELSIF key IN ('app_version', 'os_version') AND operator IN ('gt', 'gte', 'lt', 'lte')
        AND peal.version_key(value) IS NULL
    THEN
        PERFORM peal.refuse(
            format('%s must be numbers with dots between them, found "%s"', path, value), 'Write it like 10.2.1.'
        );
    END IF;
END
$$;

-- Refuses an audience that cannot be sent to, and says how many recipients it names one by one (NULL: it names a
-- rule, whose size is known when it is frozen).
CREATE OR REPLACE FUNCTION peal.check_audience(app_id integer, audience jsonb) RETURNS integer
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
        PERFORM peal.check_filter_values(audience -> 'filter', 'audience.filter');
    END IF;
    PERFORM peal.check_rule(app_id, audience);
    IF audience ?| ARRAY['all', 'segments', 'filter'] THEN
        RETURN NULL;
    END IF;
    RETURN coalesce(jsonb_array_length(audience -> 'external_ids'), 0)
        + coalesce(jsonb_array_length(audience -> 'device_ids'), 0);
END
$$;

-- Refuses a bad filter of a segment when it is written, not when it is sent to.
CREATE OR REPLACE FUNCTION peal.check_segment() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM peal.filter_condition(NEW.filter);
    PERFORM peal.check_filter_values(NEW.filter, 'filter');
    RETURN NEW;
END
$$;

-- Checks a new job and fills in what its row leaves out. Runs as the owner, so that a producer needs no right beyond
-- the INSERT itself.
CREATE OR REPLACE FUNCTION peal.prepare_job() RETURNS trigger
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
    IF NEW.app IS NULL THEN
        PERFORM peal.refuse('app is missing', 'Give the slug of one: peal app list');
    ELSIF NEW.kind IS NULL THEN
        PERFORM peal.refuse('kind is missing', 'Leave the column out, or give push.');
    ELSIF NEW.on_doubt IS NULL THEN
        PERFORM peal.refuse('on_doubt is missing', 'Leave the column out, or give resend or unknown.');
    END IF;
    SELECT a.* INTO app FROM peal.app AS a WHERE a.slug = NEW.app;
    IF app.id IS NULL THEN
        PERFORM peal.refuse(
            format('app: there is no app called "%s"', NEW.app), 'Make it with: peal app create SLUG'
        );
    END IF;
    IF NEW.kind <> 'push' THEN
        PERFORM peal.refuse(
            CASE WHEN NEW.kind = 'call' THEN 'kind: calls are not supported by this version'
            ELSE format('kind must be push, found "%s"', NEW.kind) END
        );
    ELSIF NEW.lane NOT IN ('call', 'transactional', 'campaign') THEN
        PERFORM peal.refuse(format('lane must be call, transactional or campaign, found "%s"', NEW.lane));
    ELSIF NEW.on_doubt NOT IN ('resend', 'unknown') THEN
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
    NEW.freeze_bound := NULL;
    NEW.named_device_ids := NULL;
    NEW.audience_count := 0;
    NEW.page_count := 0;
    NEW.published_pages := 0;
    NEW.released_count := 0;
    NEW.small_size := CASE WHEN NEW.lane <> 'campaign' AND peal.names_few(NEW.audience) THEN named END;
    NEW.freeze_timeouts := 0;
    NEW.lease_token := NULL;
    NEW.app_id := app.id;
    NEW.slot := app.slot;
    NEW.queued_at := at;
    NEW.send_at := greatest(coalesce(NEW.send_at, at), at);
    -- Nobody works on it, from when it is due.
    NEW.lease_until := NEW.send_at;
    NEW.state := CASE WHEN NEW.send_at > at THEN 'scheduled' ELSE 'available' END;
    -- A ttl of 0 asks the provider to keep nothing; the send itself still needs a moment to go out.
    NEW.expires_at := NEW.send_at + make_interval(secs => CASE NEW.ttl WHEN 0 THEN 30 ELSE NEW.ttl END);
    IF NEW.state = 'available' AND NEW.lane <> 'campaign' THEN
        PERFORM pg_notify(CASE WHEN NEW.small_size IS NULL THEN 'peal_job' ELSE 'peal_small_job' END, NEW.lane);
    END IF;
    RETURN NEW;
END
$$;

REVOKE ALL ON FUNCTION peal.check_filter_values(jsonb, text), peal.check_filter_value(text, text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    peal.check_filter_values(jsonb, text), peal.check_filter_value(text, text, text, text)
TO peal_worker;
