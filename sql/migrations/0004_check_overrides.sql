-- The checks of the raw parts of a content, apns and fcm: what peal itself decides, or a provider refuses, is refused.

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
    PERFORM peal.check_object(path, value);
    PERFORM peal.check_object(path || '.aps', value -> 'aps');
    IF headers IS NULL THEN
        RETURN;
    END IF;
    path := path || '.headers';
    PERFORM peal.check_object(path, headers);
    PERFORM peal.check_keys(path, headers, ARRAY['apns-push-type', 'apns-topic', 'apns-priority']);
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
    END IF;
    PERFORM peal.check_object(path, value);
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
    PERFORM peal.check_object(path, value);
    FOREACH target IN ARRAY ARRAY['token', 'fid', 'topic', 'condition'] LOOP
        IF value ? target THEN
            PERFORM peal.refuse_field(
                path || '.' || target, 'is not allowed: the audience says who gets the message'
            );
        END IF;
    END LOOP;
    PERFORM peal.check_fcm_data(path || '.data', value -> 'data');
    PERFORM peal.check_object(path || '.notification', nullif(value -> 'notification', 'null'));
    PERFORM peal.check_object(path || '.android', value -> 'android');
    IF value -> 'android' ? 'ttl' THEN
        PERFORM peal.refuse_field(path || '.android.ttl', 'is not allowed: the job''s ttl says it');
    ELSIF value -> 'android' ? 'collapse_key' THEN
        PERFORM peal.refuse_field(path || '.android.collapse_key', 'is not allowed: the job''s collapse_id says it');
    END IF;
    PERFORM peal.check_fcm_data(path || '.android.data', value -> 'android' -> 'data');
END
$$;
