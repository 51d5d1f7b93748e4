-- The rules of content in SQL, so that an INSERT refuses what could not be sent: the twin of Sources/Delivery/Content.
-- docs/content.md is the reference of both; Tests/SQLTests holds one table of cases that both must pass.

-- Raises the error of a bad field: the message is its path and what is wrong with it.
CREATE FUNCTION peal.refuse_field(path text, problem text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = path || ' ' || problem;
END
$$;

-- What errors call the type of a JSON value.
CREATE FUNCTION peal.json_kind(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
AS $$
    SELECT CASE pg_catalog.jsonb_typeof(value) WHEN 'string' THEN 'text' ELSE pg_catalog.jsonb_typeof(value) END
$$;

-- The known key that a misspelt one was probably meant to be: the first within two edits (one for short keys), or NULL.
CREATE FUNCTION peal.nearest_key(key text, known text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    nearest text;
    best integer := CASE WHEN length(key) <= 3 THEN 2 ELSE 3 END;
    candidate text;
    previous integer[];
    current integer[];
BEGIN
    FOREACH candidate IN ARRAY known LOOP
        CONTINUE WHEN abs(length(candidate) - length(key)) > 2;
        -- Levenshtein's distance, row by row; column c of the text is element c + 1.
        previous := ARRAY(SELECT generate_series(0, length(candidate)));
        FOR r IN 1..length(key) LOOP
            current := ARRAY[r];
            FOR c IN 1..length(candidate) LOOP
                current[c + 1] := least(
                    previous[c] + CASE WHEN substr(key, r, 1) = substr(candidate, c, 1) THEN 0 ELSE 1 END,
                    previous[c + 1] + 1,
                    current[c] + 1
                );
            END LOOP;
            previous := current;
        END LOOP;
        IF previous[length(candidate) + 1] < best THEN
            best := previous[length(candidate) + 1];
            nearest := candidate;
        END IF;
    END LOOP;
    RETURN nearest;
END
$$;

-- Refuses a key of an object that is not among the known ones.
CREATE FUNCTION peal.check_fields(path text, object jsonb, known text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unknown text;
BEGIN
    SELECT key INTO unknown FROM jsonb_object_keys(object) AS key WHERE key <> ALL (known) LIMIT 1;
    IF unknown IS NOT NULL THEN
        PERFORM peal.refuse_field(
            path || '.' || unknown,
            'is not known' || coalesce(' (did you mean ' || peal.nearest_key(unknown, known) || '?)', '')
        );
    END IF;
END
$$;

-- Refuses what is not a text, or is an empty one. NULL and null pass.
CREATE FUNCTION peal.check_text(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF value IS NULL OR value = 'null' THEN
        RETURN;
    ELSIF jsonb_typeof(value) <> 'string' THEN
        PERFORM peal.refuse_field(path, 'must be text, found ' || peal.json_kind(value));
    ELSIF value = '""' THEN
        PERFORM peal.refuse_field(path, 'must not be empty');
    END IF;
END
$$;

-- Refuses what is not one of a few words. NULL and null pass.
CREATE FUNCTION peal.check_word(path text, value jsonb, words text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM peal.check_text(path, value);
    IF value <> 'null' AND value #>> '{}' <> ALL (words) THEN
        PERFORM peal.refuse_field(path, 'must be one of ' || array_to_string(words, ', '));
    END IF;
END
$$;

-- Refuses what is not true or false. NULL and null pass.
CREATE FUNCTION peal.check_boolean(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(value) NOT IN ('boolean', 'null') THEN
        PERFORM peal.refuse_field(path, 'must be true or false, found ' || peal.json_kind(value));
    END IF;
END
$$;

-- Refuses what is not a whole number, spelt without fraction, within bounds. NULL and null pass.
CREATE FUNCTION peal.check_whole_number(path text, value jsonb, low bigint, high bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF value IS NULL OR value = 'null' THEN
        RETURN;
    ELSIF jsonb_typeof(value) <> 'number' THEN
        PERFORM peal.refuse_field(path, 'must be a whole number, found ' || peal.json_kind(value));
    ELSIF value::text !~ '^-?[0-9]{1,18}$' OR value::text::bigint NOT BETWEEN low AND high THEN
        PERFORM peal.refuse_field(path, format('must be a whole number from %s to %s', low, high));
    END IF;
END
$$;

-- Refuses what is not a number from 0 to 1. NULL and null pass.
CREATE FUNCTION peal.check_share(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF value IS NULL OR value = 'null' THEN
        RETURN;
    ELSIF jsonb_typeof(value) <> 'number' THEN
        PERFORM peal.refuse_field(path, 'must be a number, found ' || peal.json_kind(value));
    ELSIF value::numeric NOT BETWEEN 0 AND 1 THEN
        PERFORM peal.refuse_field(path, 'must be a number from 0 to 1');
    END IF;
END
$$;

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
    IF jsonb_typeof(value) <> 'object' THEN
        PERFORM peal.refuse_field(path, 'must be an object, found ' || peal.json_kind(value));
    END IF;
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
        IF jsonb_typeof(action) <> 'object' THEN
            PERFORM peal.refuse_field(place, 'must be an object, found ' || peal.json_kind(action));
        END IF;
        PERFORM peal.check_fields(place, action, ARRAY['id', 'title', 'url']);
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
    PERFORM peal.check_fields(path, value, ARRAY['set', 'increase']);
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
    PERFORM peal.check_fields(path, value, ARRAY['name', 'critical', 'volume']);
    PERFORM peal.check_text(path || '.name', value -> 'name');
    PERFORM peal.check_boolean(path || '.critical', value -> 'critical');
    PERFORM peal.check_share(path || '.volume', value -> 'volume');
END
$$;

-- What is wrong with a text that travels as a header: printable ASCII, at most 64 bytes, no outer spaces. NULL if nothing.
CREATE FUNCTION peal.collapse_id_problem(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN value = '' THEN 'must not be empty'
        WHEN value ~ '[^ -~]' COLLATE "C" THEN 'must be printable ASCII'
        WHEN octet_length(value) > 64 THEN format('must be at most 64 bytes, found %s', octet_length(value))
        WHEN value LIKE ' %' OR value LIKE '% ' THEN 'must not begin or end with a space'
    END
$$;

-- Refuses a collapse id that APNs would refuse. NULL passes.
CREATE FUNCTION peal.check_collapse_id(value text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF peal.collapse_id_problem(value) IS NOT NULL THEN
        PERFORM peal.refuse_field('collapse_id', peal.collapse_id_problem(value));
    END IF;
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
    IF jsonb_typeof(value) <> 'object' THEN
        PERFORM peal.refuse_field(path, 'must be an object, found ' || peal.json_kind(value));
    END IF;
    PERFORM peal.check_fields(
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

-- The raw part for APNs: a merge patch over the payload, and a few headers.
CREATE FUNCTION peal.check_apns(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    headers jsonb := nullif(value -> 'headers', 'null');
    push_type text := headers ->> 'apns-push-type';
    header text;
BEGIN
    IF jsonb_typeof(value) <> 'object' THEN
        PERFORM peal.refuse_field(path, 'must be an object, found ' || peal.json_kind(value));
    ELSIF value ? 'aps' AND jsonb_typeof(value -> 'aps') <> 'object' THEN
        PERFORM peal.refuse_field(path || '.aps', 'must be an object, found ' || peal.json_kind(value -> 'aps'));
    ELSIF headers IS NULL THEN
        RETURN;
    ELSIF jsonb_typeof(headers) <> 'object' THEN
        PERFORM peal.refuse_field(path || '.headers', 'must be an object, found ' || peal.json_kind(headers));
    END IF;
    path := path || '.headers';
    PERFORM peal.check_fields(path, headers, ARRAY['apns-push-type', 'apns-topic', 'apns-priority']);
    FOREACH header IN ARRAY ARRAY['apns-push-type', 'apns-topic', 'apns-priority'] LOOP
        PERFORM peal.check_text(path || '.' || header, headers -> header);
    END LOOP;
    IF push_type !~ '^[a-z-]+$' COLLATE "C" THEN
        PERFORM peal.refuse_field(path || '.apns-push-type', 'must be lower-case letters and hyphens');
    ELSIF push_type = 'voip' THEN
        PERFORM peal.refuse_field(path || '.apns-push-type', 'is only for jobs of kind call');
    ELSIF headers ->> 'apns-topic' !~ '^[A-Za-z0-9._-]{1,255}$' COLLATE "C" THEN
        PERFORM peal.refuse_field(path || '.apns-topic', 'must be letters, digits, hyphens and dots, at most 255');
    ELSIF headers ->> 'apns-priority' NOT IN ('1', '5', '10') THEN
        PERFORM peal.refuse_field(path || '.apns-priority', 'must be one of 1, 5, 10');
    ELSIF push_type = 'background' AND headers ->> 'apns-priority' <> '5' THEN
        PERFORM peal.refuse_field(path || '.apns-priority', 'must be 5 for a background push');
    END IF;
END
$$;

-- The data of the raw part for FCM: texts, or null to remove a key.
CREATE FUNCTION peal.check_fcm_data(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    entry record;
BEGIN
    IF value IS NULL OR value = 'null' THEN
        RETURN;
    ELSIF jsonb_typeof(value) <> 'object' THEN
        PERFORM peal.refuse_field(path, 'must be an object, found ' || peal.json_kind(value));
    END IF;
    PERFORM peal.check_data(path, jsonb_strip_nulls(value));
    FOR entry IN SELECT t.key, t.value FROM jsonb_each(value) AS t LOOP
        IF jsonb_typeof(entry.value) NOT IN ('string', 'null') THEN
            PERFORM peal.refuse_field(path || '.' || entry.key, 'must be text, found ' || peal.json_kind(entry.value));
        END IF;
    END LOOP;
END
$$;

-- The raw part for FCM: a merge patch over the message.
CREATE FUNCTION peal.check_fcm(path text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    target text;
BEGIN
    IF jsonb_typeof(value) <> 'object' THEN
        PERFORM peal.refuse_field(path, 'must be an object, found ' || peal.json_kind(value));
    END IF;
    FOREACH target IN ARRAY ARRAY['token', 'fid', 'topic', 'condition'] LOOP
        IF value ? target THEN
            PERFORM peal.refuse_field(
                path || '.' || target, 'is not allowed: the audience says who gets the message'
            );
        END IF;
    END LOOP;
    PERFORM peal.check_fcm_data(path || '.data', value -> 'data');
    IF jsonb_typeof(value -> 'notification') NOT IN ('object', 'null') THEN
        PERFORM peal.refuse_field(
            path || '.notification', 'must be an object, found ' || peal.json_kind(value -> 'notification')
        );
    ELSIF jsonb_typeof(value -> 'android') <> 'object' THEN
        PERFORM peal.refuse_field(path || '.android', 'must be an object, found ' || peal.json_kind(value -> 'android'));
    ELSIF value -> 'android' ? 'ttl' THEN
        PERFORM peal.refuse_field(path || '.android.ttl', 'is not allowed: the job''s ttl says it');
    ELSIF value -> 'android' ? 'collapse_key' THEN
        PERFORM peal.refuse_field(path || '.android.collapse_key', 'is not allowed: the job''s collapse_id says it');
    END IF;
    PERFORM peal.check_fcm_data(path || '.android.data', value -> 'android' -> 'data');
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
    IF content IS NULL OR jsonb_typeof(content) <> 'object' THEN
        PERFORM peal.refuse_field(
            'content', 'must be an object, found ' || coalesce(peal.json_kind(content), 'nothing')
        );
    ELSIF octet_length(content::text) > 262144 THEN
        PERFORM peal.refuse_field(
            'content', format('is %s bytes, the limit is 262144', octet_length(content::text))
        );
    ELSIF jsonb_path_exists(content, 'strict $.**{32 to last} ? (@.type() == "object" || @.type() == "array")') THEN
        PERFORM peal.refuse_field('content', 'is nested deeper than 32 levels');
    END IF;
    PERFORM peal.check_fields('content', content, ARRAY[
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

-- A JSON value as the shortest text: as PostgreSQL writes it, without the space after commas and colons.
CREATE FUNCTION peal.compact_json(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT regexp_replace(value::text, '("(?:[^"\\]|\\.)*")|([,:]) ', '\1\2', 'g')
$$;

-- Applies a JSON Merge Patch (RFC 7386): objects merge key by key, null removes a key, everything else replaces.
CREATE FUNCTION peal.merge_patch(target jsonb, patch jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    entry record;
BEGIN
    IF jsonb_typeof(target) IS DISTINCT FROM 'object' THEN
        target := '{}';
    END IF;
    FOR entry IN SELECT t.key, t.value FROM jsonb_each(patch) AS t LOOP
        target := CASE jsonb_typeof(entry.value)
            WHEN 'null' THEN target - entry.key
            WHEN 'object' THEN
                target || jsonb_build_object(entry.key, peal.merge_patch(target -> entry.key, entry.value))
            ELSE target || jsonb_build_object(entry.key, entry.value)
        END;
    END LOOP;
    RETURN target;
END
$$;

-- The text of a field for a lower-case language tag: the tag, then without its last part, and so on, then the default.
CREATE FUNCTION peal.localized_text(value jsonb, tag text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found text;
BEGIN
    IF jsonb_typeof(value) IS DISTINCT FROM 'object' THEN
        RETURN value #>> '{}';
    END IF;
    WHILE tag <> '' LOOP
        SELECT t.value INTO found FROM jsonb_each_text(value) AS t WHERE lower(t.key COLLATE "C") = tag;
        EXIT WHEN found IS NOT NULL;
        tag := CASE WHEN position('-' IN tag) = 0 THEN '' ELSE regexp_replace(tag, '-[^-]*$', '') END;
    END LOOP;
    RETURN coalesce(found, value ->> 'default');
END
$$;

-- The body of an APNs request in one language ('' for the default), or NULL where the content has nothing for APNs.
-- The content must have passed check_content.
CREATE FUNCTION peal.apns_payload(content jsonb, tag text DEFAULT '') RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    alert jsonb := jsonb_strip_nulls(jsonb_build_object(
        'title', peal.localized_text(content -> 'title', tag),
        'subtitle', peal.localized_text(content -> 'subtitle', tag),
        'body', peal.localized_text(content -> 'body', tag)
    ));
    has_text boolean := alert <> '{}';
    data jsonb := coalesce(nullif(content -> 'data', 'null'), '{}');
    patch jsonb := coalesce(nullif(content -> 'apns', 'null'), '{}') - 'headers';
    sound jsonb := nullif(content -> 'sound', 'null');
    available boolean := coalesce((content -> 'available')::text = 'true', false);
    increase jsonb := peal.badge_part(content -> 'badge', 'increase');
    mutable boolean := coalesce(
        (content ->> 'mutable')::boolean, increase IS NOT NULL OR (content ->> 'image' IS NOT NULL AND has_text)
    );
    payload jsonb;
BEGIN
    IF NOT has_text AND content ->> 'badge' IS NULL AND sound IS NULL AND NOT available AND data = '{}'
        AND patch = '{}' THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(sound) = 'object' THEN
        sound := CASE WHEN coalesce(sound ->> 'critical', 'false') = 'false' AND sound ->> 'volume' IS NULL
            THEN to_jsonb(coalesce(sound ->> 'name', 'default'))
            ELSE jsonb_build_object(
                'critical', CASE WHEN sound ->> 'critical' = 'true' THEN 1 ELSE 0 END,
                'name', coalesce(sound ->> 'name', 'default'),
                'volume', sound -> 'volume'
            )
        END;
    END IF;
    payload := jsonb_build_object('aps', jsonb_strip_nulls(jsonb_build_object(
        'alert', nullif(alert, '{}'),
        'badge', peal.badge_part(content -> 'badge', 'set'),
        'sound', sound,
        'thread-id', content -> 'thread_id',
        'category', content -> 'category',
        'content-available', CASE WHEN available THEN 1 END,
        'mutable-content', CASE WHEN mutable THEN 1 END,
        'interruption-level', content -> 'interruption_level',
        'relevance-score', content -> 'relevance'
    ))) || data || jsonb_strip_nulls(jsonb_build_object(
        'url', content -> 'url',
        'image', content -> 'image',
        'actions', nullif(content -> 'actions', '[]'),
        'badge_increase', increase
    ));
    IF patch <> '{}' THEN
        payload := peal.merge_patch(payload, patch);
    END IF;
    -- A push that shows nothing is a background push, and says so.
    IF coalesce(
        content #>> '{apns,headers,apns-push-type}' = 'background',
        NOT payload -> 'aps' ?| ARRAY['alert', 'badge', 'sound']
    ) AND NOT payload -> 'aps' ? 'content-available' THEN
        payload := jsonb_set(payload, '{aps,content-available}', '1');
    END IF;
    RETURN payload;
END
$$;

-- The message of an FCM request in one language ('' for the default) without its token and with the longest ttl, or NULL
-- where the content has nothing for FCM. The content must have passed check_content.
CREATE FUNCTION peal.fcm_message(content jsonb, collapse_id text DEFAULT NULL, tag text DEFAULT '') RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    title text := peal.localized_text(content -> 'title', tag);
    body text := peal.localized_text(content -> 'body', tag);
    shows boolean := title IS NOT NULL OR body IS NOT NULL;
    available boolean := coalesce((content -> 'available')::text = 'true', false);
    patch jsonb := coalesce(nullif(content -> 'fcm', 'null'), '{}');
    badge jsonb := peal.badge_part(content -> 'badge', 'set');
    increase jsonb := peal.badge_part(content -> 'badge', 'increase');
    priority text := upper(coalesce(content ->> 'priority', CASE WHEN shows THEN 'high' ELSE 'normal' END) COLLATE "C");
    actions jsonb := jsonb_strip_nulls(nullif(nullif(content -> 'actions', 'null'), '[]'));
    sound jsonb := content -> 'sound';
    data jsonb;
    android jsonb;
    message jsonb;
BEGIN
    -- FCM takes texts only: other values go as their compact JSON.
    SELECT coalesce(jsonb_object_agg(
        t.key, CASE jsonb_typeof(t.value) WHEN 'string' THEN t.value ELSE to_jsonb(peal.compact_json(t.value)) END
    ), '{}')
    INTO data
    FROM jsonb_each(nullif(content -> 'data', 'null')) AS t;
    IF shows OR available OR content ->> 'badge' IS NOT NULL OR data <> '{}' THEN
        data := data || jsonb_strip_nulls(jsonb_build_object(
            'url', content -> 'url',
            'actions', peal.compact_json(actions),
            'image', CASE WHEN NOT shows THEN content -> 'image' END,
            'badge', CASE WHEN NOT shows THEN badge::text END
        ));
    END IF;
    IF NOT shows AND NOT available AND data = '{}' AND patch = '{}' THEN
        RETURN NULL;
    END IF;
    android := jsonb_build_object('ttl', '2419200s', 'priority', priority);
    IF collapse_id IS NOT NULL THEN
        android := android || jsonb_build_object('collapse_key', collapse_id);
    END IF;
    IF shows THEN
        android := android || jsonb_strip_nulls(jsonb_build_object('notification', nullif(
            jsonb_strip_nulls(jsonb_build_object(
                'icon', content -> 'icon',
                'color', content -> 'color',
                'sound', CASE jsonb_typeof(sound)
                    WHEN 'string' THEN sound #>> '{}'
                    WHEN 'object' THEN coalesce(sound ->> 'name', 'default')
                END,
                'channel_id', content -> 'android_channel',
                'tag', collapse_id,
                'notification_count', CASE WHEN increase IS NULL THEN badge WHEN increase > '0' THEN increase END
            )), '{}'
        )));
    END IF;
    message := jsonb_strip_nulls(jsonb_build_object(
        'notification', CASE WHEN shows THEN
            jsonb_build_object('title', title, 'body', body, 'image', content -> 'image')
        END,
        'data', nullif(data, '{}'),
        'android', android
    ));
    RETURN CASE WHEN patch = '{}' THEN message ELSE peal.merge_patch(message, patch) END;
END
$$;

-- The size of the largest payload that a content makes for a provider ('apns' or 'fcm') over all its languages, in the
-- bytes that the provider's limit is about; NULL where there is nothing to send to it, and for calls.
CREATE FUNCTION peal.payload_bytes(content jsonb, provider text, collapse_id text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    tags text[] := ARRAY[''];
    tag text;
    bytes integer;
BEGIN
    IF content ->> 'call' IS NOT NULL THEN
        RETURN NULL;
    END IF;
    SELECT tags || coalesce(array_agg(DISTINCT lower(t.key COLLATE "C")), '{}') INTO tags
    FROM unnest(ARRAY['title', 'subtitle', 'body']) AS field (name)
    CROSS JOIN jsonb_each(CASE jsonb_typeof(content -> field.name) WHEN 'object' THEN content -> field.name END) AS t
    WHERE t.key <> 'default';
    FOREACH tag IN ARRAY tags LOOP
        bytes := greatest(bytes, octet_length(peal.compact_json(
            CASE provider
                WHEN 'apns' THEN peal.apns_payload(content, tag)
                WHEN 'fcm' THEN peal.fcm_message(content, collapse_id, tag)
            END
        )));
    END LOOP;
    RETURN bytes;
END
$$;
