-- Registration of devices, the one door for SQL, the command and whatever comes.

-- Whether an identifier is empty, or a word that programs write where they have nothing: as an identifier it would make one
-- of all that have nothing.
CREATE FUNCTION peal.names_nothing(value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(lower(value COLLATE "C"), '') IN ('', '(null)', '<null>', 'null', 'undefined')
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
    ELSIF peal.names_nothing(plain) OR lower(plain COLLATE "C") IN ('nil', 'none') THEN
        PERFORM peal.refuse(format('%s is the word "%s"', field, plain), 'Register the device once it has a token.');
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
-- See peal.resolve_named: the plan must not know which app it is.
SET plan_cache_mode = force_generic_plan
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
    END IF;
    SELECT key INTO wrong FROM jsonb_each_text(device)
    WHERE key IN ('external_id', 'installation_id') AND value IS NOT NULL AND peal.names_nothing(value)
    ORDER BY key LIMIT 1;
    IF wrong IS NOT NULL THEN
        PERFORM peal.refuse(
            format('device.%s is the word "%s"', wrong, device ->> wrong), 'Leave the key out where there is none.'
        );
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
-- See peal.resolve_named: the plan must not know which app it is.
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    owner integer;
    named_token text;
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
        SELECT FROM jsonb_each_text(device) WHERE peal.names_nothing(value)
    ) THEN
        PERFORM peal.refuse('device names nothing: the value is empty');
    ELSIF device ? 'device_id' AND device ->> 'device_id' !~ '^[1-9][0-9]{0,17}$' THEN
        PERFORM peal.refuse('device.device_id must be a whole number above 0');
    ELSIF device ? 'token' AND coalesce(device ->> 'channel', '') NOT IN ('ios', 'android') THEN
        PERFORM peal.refuse('device.channel must be ios or android where a token is named');
    END IF;
    named_token := peal.normalised_token('device.token', device ->> 'channel', device ->> 'token');
    DELETE FROM peal.device AS d
    WHERE d.app_id = owner AND d.id = ANY (ARRAY(
        SELECT (device ->> 'device_id')::bigint
        UNION ALL
        SELECT i.id FROM peal.device AS i WHERE i.app_id = owner AND i.installation_id = device ->> 'installation_id'
        UNION ALL
        SELECT e.id FROM peal.device AS e WHERE e.app_id = owner AND e.external_id = device ->> 'external_id'
        UNION ALL
        SELECT t.id FROM peal.device AS t
        WHERE t.app_id = owner AND t.channel = device ->> 'channel' AND md5(t.token)::uuid = md5(named_token)::uuid
            AND t.token = named_token
    ));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;
