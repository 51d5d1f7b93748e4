-- The rules of content in SQL, so that an INSERT refuses what could not be sent: the twin of Sources/Delivery/Content.
-- docs/content.md is the reference of both; Tests/SQLTests holds one table of cases that both must pass.

-- Refuses what is not a text or an object of texts by language with a default. NULL and null pass.
CREATE FUNCTION peal.check_localized(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    entry record;
    seen text[] := '{}';
BEGIN
    IF jsonb_typeof(value) IS DISTINCT FROM 'object' THEN
        IF jsonb_typeof(value) NOT IN ('string', 'null') THEN
            PERFORM peal.refuse_field(
                path, 'must be text or an object of texts by language, found ' || peal.json_kind(value)
            );
        END IF;
        PERFORM peal.check_text(path, value);
        RETURN;
    END IF;
    FOR entry IN SELECT t.key, t.value FROM jsonb_each(value) AS t LOOP
        IF entry.value = 'null' THEN
            PERFORM peal.refuse_field(path || '.' || entry.key, 'must be text, found null');
        END IF;
        PERFORM peal.check_text(path || '.' || entry.key, entry.value);
        CONTINUE WHEN entry.key = 'default';
        IF entry.key !~ '^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$' COLLATE "C" THEN
            PERFORM peal.refuse_field(path || '.' || entry.key, 'is not a language tag such as en or pt-BR');
        ELSIF lower(entry.key COLLATE "C") = ANY (seen || ARRAY['default']) THEN
            PERFORM peal.refuse_field(path || '.' || entry.key, 'is given twice in different case');
        END IF;
        seen := seen || lower(entry.key COLLATE "C");
    END LOOP;
    IF NOT value ? 'default' THEN
        PERFORM peal.refuse_field(path, 'needs the key default');
    END IF;
END
$$;

-- Refuses keys that a provider would refuse or overwrite, and nulls, which mean nothing to an app.
CREATE FUNCTION peal.check_data(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    entry record;
BEGIN
    PERFORM peal.check_object(path, value);
    FOR entry IN SELECT t.key, t.value FROM jsonb_each(value) AS t LOOP
        IF entry.key = 'aps' THEN
            PERFORM peal.refuse_field(path || '.aps', 'is reserved by APNs');
        ELSIF entry.key IN ('from', 'message_type')
            OR starts_with(entry.key, 'google') OR starts_with(entry.key, 'gcm') THEN
            PERFORM peal.refuse_field(path || '.' || entry.key, 'is reserved by FCM');
        ELSIF entry.value = 'null' THEN
            PERFORM peal.refuse_field(path || '.' || entry.key, 'must not be null');
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION peal.check_actions(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    action jsonb;
    field text;
    place text;
    seen jsonb[] := '{}';
BEGIN
    IF jsonb_typeof(value) <> 'array' THEN
        PERFORM peal.refuse_field(path, 'must be an array, found ' || peal.json_kind(value));
    ELSIF jsonb_array_length(value) > 3 THEN
        PERFORM peal.refuse_field(path, format('must hold at most 3, found %s', jsonb_array_length(value)));
    END IF;
    FOR position IN 0..jsonb_array_length(value) - 1 LOOP
        action := value -> position;
        place := format('%s[%s]', path, position);
        PERFORM peal.check_object(place, action);
        PERFORM peal.check_keys(place, action, ARRAY['id', 'title', 'url']);
        FOREACH field IN ARRAY ARRAY['id', 'title', 'url'] LOOP
            PERFORM peal.check_text(place || '.' || field, action -> field);
            IF field <> 'url' AND coalesce(action -> field, 'null') = 'null' THEN
                PERFORM peal.refuse_field(place || '.' || field, 'is missing');
            END IF;
        END LOOP;
        IF action -> 'id' = ANY (seen) THEN
            PERFORM peal.refuse_field(place || '.id', 'is used twice');
        END IF;
        seen := seen || (action -> 'id');
    END LOOP;
END
$$;

-- The number of a badge that is set, or that is to increase; NULL if it is the other kind.
CREATE FUNCTION peal.badge_part(badge jsonb, part text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN jsonb_typeof(badge) = 'object' THEN nullif(badge -> part, 'null')
        WHEN part = 'set' THEN nullif(badge, 'null')
    END
$$;

CREATE FUNCTION peal.check_badge(path text, value jsonb, has_text boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    has_set boolean;
    has_increase boolean;
BEGIN
    IF jsonb_typeof(value) <> 'object' THEN
        PERFORM peal.check_whole_number(path, value, 0, 2147483647);
        RETURN;
    END IF;
    PERFORM peal.check_keys(path, value, ARRAY['set', 'increase']);
    PERFORM peal.check_whole_number(path || '.set', value -> 'set', 0, 2147483647);
    PERFORM peal.check_whole_number(path || '.increase', value -> 'increase', -2147483647, 2147483647);
    has_set := coalesce(value -> 'set', 'null') <> 'null';
    has_increase := coalesce(value -> 'increase', 'null') <> 'null';
    IF has_set = has_increase THEN
        PERFORM peal.refuse_field(path, 'needs either set or increase');
    ELSIF has_increase AND NOT has_text THEN
        PERFORM peal.refuse_field(path || '.increase', 'needs a title, subtitle or body');
    END IF;
END
$$;

CREATE FUNCTION peal.check_sound(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(value) = 'string' THEN
        PERFORM peal.check_text(path, value);
        RETURN;
    ELSIF jsonb_typeof(value) <> 'object' THEN
        PERFORM peal.refuse_field(path, 'must be text or an object, found ' || peal.json_kind(value));
    END IF;
    PERFORM peal.check_keys(path, value, ARRAY['name', 'critical', 'volume']);
    PERFORM peal.check_text(path || '.name', value -> 'name');
    PERFORM peal.check_boolean(path || '.critical', value -> 'critical');
    PERFORM peal.check_share(path || '.volume', value -> 'volume');
END
$$;

CREATE FUNCTION peal.check_call(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    call_id jsonb := nullif(nullif(value -> 'call_id', 'null'), '""');
    field text;
BEGIN
    PERFORM peal.check_object(path, value);
    PERFORM peal.check_keys(
        path, value, ARRAY['event', 'call_id', 'caller', 'handle', 'avatar', 'video', 'timeout', 'reason']
    );
    IF coalesce(value -> 'event', 'null') = 'null' THEN
        PERFORM peal.refuse_field(path || '.event', 'is missing');
    END IF;
    PERFORM peal.check_word(path || '.event', value -> 'event', ARRAY['incoming', 'ended']);
    PERFORM peal.check_text(path || '.call_id', call_id);
    IF peal.collapse_id_problem(call_id #>> '{}') IS NOT NULL THEN
        PERFORM peal.refuse_field(path || '.call_id', peal.collapse_id_problem(call_id #>> '{}'));
    ELSIF call_id IS NULL AND value ->> 'event' = 'ended' THEN
        PERFORM peal.refuse_field(path || '.call_id', 'is missing: it says which call has ended');
    END IF;
    PERFORM peal.check_word(
        path || '.reason', value -> 'reason', ARRAY['answered_elsewhere', 'declined_elsewhere', 'cancelled', 'timeout']
    );
    IF value ->> 'event' = 'incoming' AND value ->> 'reason' IS NOT NULL THEN
        PERFORM peal.refuse_field(path || '.reason', 'is only for a call that has ended');
    END IF;
    FOREACH field IN ARRAY ARRAY['caller', 'handle', 'avatar'] LOOP
        PERFORM peal.check_text(path || '.' || field, value -> field);
    END LOOP;
    PERFORM peal.check_boolean(path || '.video', value -> 'video');
    PERFORM peal.check_whole_number(path || '.timeout', value -> 'timeout', 1, 600);
END
$$;

-- Refuses a content that could not be sent, with the path of the field (SQLSTATE 22023). kind is push or call.
CREATE FUNCTION peal.check_content(kind text, content jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    present jsonb;
    entry record;
    path text;
    repeated text;
BEGIN
    IF content IS NULL THEN
        PERFORM peal.refuse_field('content', 'must be an object, found nothing');
    END IF;
    PERFORM peal.check_object('content', content);
    IF octet_length(content::text) > 262144 THEN
        PERFORM peal.refuse_field(
            'content', format('is %s bytes, the limit is 262144', octet_length(content::text))
        );
    ELSIF jsonb_path_exists(content, 'strict $.**{32 to last} ? (@.type() == "object" || @.type() == "array")') THEN
        PERFORM peal.refuse_field('content', 'is nested deeper than 32 levels');
    END IF;
    PERFORM peal.check_keys('content', content, ARRAY[
        'title', 'subtitle', 'body', 'data', 'url', 'image', 'icon', 'color', 'actions', 'badge', 'sound', 'category',
        'thread_id', 'android_channel', 'priority', 'interruption_level', 'relevance', 'mutable', 'available', 'call',
        'apns', 'fcm'
    ]);
    -- Null counts as absent.
    SELECT coalesce(jsonb_object_agg(t.key, t.value), '{}') INTO present
    FROM jsonb_each(content) AS t WHERE t.value <> 'null';
    IF kind = 'call' THEN
        FOR entry IN SELECT key FROM jsonb_object_keys(present) AS key WHERE key NOT IN ('call', 'data') LOOP
            PERFORM peal.refuse_field('content.' || entry.key, 'is not for jobs of kind call');
        END LOOP;
        IF NOT present ? 'call' THEN
            PERFORM peal.refuse_field('content.call', 'is missing');
        END IF;
    ELSIF present ? 'call' THEN
        PERFORM peal.refuse_field('content.call', 'is only for jobs of kind call');
    END IF;
    FOR entry IN SELECT t.key, t.value FROM jsonb_each(present) AS t LOOP
        path := 'content.' || entry.key;
        CASE entry.key
            WHEN 'title', 'subtitle', 'body' THEN
                PERFORM peal.check_localized(path, entry.value);
            WHEN 'url', 'image', 'icon', 'category', 'thread_id', 'android_channel' THEN
                PERFORM peal.check_text(path, entry.value);
            WHEN 'color' THEN
                PERFORM peal.check_text(path, entry.value);
                IF entry.value #>> '{}' !~ '^#[0-9A-Fa-f]{6}$' COLLATE "C" THEN
                    PERFORM peal.refuse_field(path, 'must be a colour such as #1a2b3c');
                END IF;
            WHEN 'data' THEN
                PERFORM peal.check_data(path, entry.value);
            WHEN 'actions' THEN
                PERFORM peal.check_actions(path, entry.value);
            WHEN 'badge' THEN
                PERFORM peal.check_badge(path, entry.value, present ?| ARRAY['title', 'subtitle', 'body']);
            WHEN 'sound' THEN
                PERFORM peal.check_sound(path, entry.value);
            WHEN 'priority' THEN
                PERFORM peal.check_word(path, entry.value, ARRAY['high', 'normal']);
            WHEN 'interruption_level' THEN
                PERFORM peal.check_word(path, entry.value, ARRAY['passive', 'active', 'time-sensitive', 'critical']);
            WHEN 'relevance' THEN
                PERFORM peal.check_share(path, entry.value);
            WHEN 'mutable', 'available' THEN
                PERFORM peal.check_boolean(path, entry.value);
            WHEN 'call' THEN
                PERFORM peal.check_call(path, entry.value);
            WHEN 'apns' THEN
                PERFORM peal.check_apns(path, entry.value);
            WHEN 'fcm' THEN
                PERFORM peal.check_fcm(path, entry.value);
        END CASE;
    END LOOP;
    -- These reach the app beside the data: the same key there would be lost.
    IF present ? 'data' THEN
        SELECT t.key INTO repeated
        FROM jsonb_object_keys(present -> 'data') AS t (key)
        WHERE t.key IN ('url', 'image') AND present ? t.key
            OR t.key = 'actions' AND jsonb_array_length(present -> 'actions') > 0
            OR t.key = 'badge' AND peal.badge_part(present -> 'badge', 'set') IS NOT NULL
            OR t.key = 'badge_increase' AND peal.badge_part(present -> 'badge', 'increase') IS NOT NULL
        LIMIT 1;
        IF repeated IS NOT NULL THEN
            PERFORM peal.refuse_field(
                'content.data.' || repeated, 'is also written by content.' || replace(repeated, '_increase', '')
            );
        END IF;
    END IF;
    IF kind = 'push' AND NOT present ?| ARRAY['title', 'subtitle', 'body', 'badge', 'sound']
        AND present -> 'available' IS DISTINCT FROM 'true' AND coalesce(present -> 'data', '{}') = '{}'
        AND coalesce(present -> 'apns', '{}') - 'headers' = '{}' AND coalesce(present -> 'fcm', '{}') = '{}' THEN
        PERFORM peal.refuse_field('content', 'has nothing to send');
    END IF;
END
$$;
