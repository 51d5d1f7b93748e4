-- The payloads that a content makes, so that an INSERT can refuse one that is too large. The twin of the templates in
-- Sources/Delivery/APNs and Sources/Delivery/FCM.

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
