-- Leaves out what the checks of a new job need not do: an INSERT costs half of what it did. And tells of campaigns too.

-- Refuses a content that could not be sent, with the path of the field (SQLSTATE 22023). kind is push or call.
CREATE OR REPLACE FUNCTION peal.check_content(kind text, content jsonb) RETURNS void
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
    -- These reach the app beside the data: the same key there would be lost. Which it is is asked only where there is one:
    -- the question is planned anew each time.
    IF present -> 'data' ?| ARRAY['url', 'image', 'actions', 'badge', 'badge_increase'] THEN
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
        -- No payload is longer than twice the content, where all of it is quotes that become text in a text, and 600
        -- bytes of names and collapse ids: a short one need not be made to be measured.
        EXIT WHEN octet_length(NEW.content::text) <= 1500;
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
    IF NEW.state = 'available' THEN
        PERFORM pg_notify(CASE WHEN NEW.small_size IS NULL THEN 'peal_job' ELSE 'peal_small_job' END, NEW.lane);
    END IF;
    RETURN NEW;
END
$$;
