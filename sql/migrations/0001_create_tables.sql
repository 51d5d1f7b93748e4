-- The tables of peal. Names are the contract of docs/sql.md; columns beyond those named there are internal.
--
-- Rules that hold for every table that sending touches (the hot ones: batch, batch_delayed, audience_page, result,
-- stat_delta): no foreign keys into them, no session locks, rows written in key order, `slot` first in each key, so
-- that the same statements run when tables are spread over several servers by slot.
--
-- What runs again and again has `SET jit = off`: a plan whose estimate is too high by far costs seconds to compile, and
-- none of these takes long enough to gain by it.

CREATE SCHEMA IF NOT EXISTS peal;

-- A time-ordered UUID (version 7): new rows land at the end of an index, and ids never repeat after a failover.
CREATE FUNCTION peal.uuid_v7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT encode(
        set_bit(
            set_bit(
                overlay(
                    uuid_send(gen_random_uuid())
                    PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6
                ),
                52, 1
            ),
            53, 1
        ),
        'hex'
    )::uuid
$$;

-- A tenant: its devices, credentials and jobs are apart from everyone else's.
CREATE TABLE peal.app (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug text NOT NULL UNIQUE
        CONSTRAINT app_slug_form CHECK (slug ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    name text,
    slot smallint NOT NULL DEFAULT 0,
    -- The app's share when several apps want to send at once: twice the weight, twice the share.
    weight integer NOT NULL DEFAULT 100
        CONSTRAINT app_weight_range CHECK (weight BETWEEN 1 AND 10000),
    -- Seconds that a job may wait when it names no ttl.
    default_ttl integer NOT NULL DEFAULT 259200
        CONSTRAINT app_default_ttl_range CHECK (default_ttl BETWEEN 0 AND 2419200),
    -- What a refused credential does to a send: fail the rest at once, or hold it until its expiry.
    on_credential_failure text NOT NULL DEFAULT 'fail'
        CONSTRAINT app_on_credential_failure_value CHECK (on_credential_failure IN ('fail', 'hold')),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- What an app signs in with at a provider. The secret part is sealed; the rest is readable.
CREATE TABLE peal.credential (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id integer NOT NULL REFERENCES peal.app (id),
    provider text NOT NULL CONSTRAINT credential_provider_value CHECK (provider IN ('apns', 'fcm')),
    -- APNs: which of its two hosts the key serves, and who owns the key.
    environment text CONSTRAINT credential_environment_value CHECK (environment IN ('production', 'sandbox')),
    key_id text,
    team_id text,
    topic text,
    -- FCM: the service account.
    project_id text,
    client_email text,
    token_uri text,
    -- Another host in place of the provider's own (https://HOST:PORT): a simulator, a proxy, a test double.
    endpoint text,
    -- AES-256-GCM of the .p8 text or of the service account's JSON.
    sealed bytea NOT NULL,
    state text NOT NULL DEFAULT 'active'
        CONSTRAINT credential_state_value CHECK (state IN ('active', 'refused', 'removed')),
    state_reason text,
    -- The provider asked to wait: nothing is sent with it before.
    held_until timestamptz,
    held_reason text,
    verified_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT credential_apns_fields CHECK (
        provider <> 'apns'
        OR (environment IS NOT NULL AND key_id IS NOT NULL AND team_id IS NOT NULL AND topic IS NOT NULL)
    ),
    CONSTRAINT credential_fcm_fields CHECK (
        provider <> 'fcm' OR (project_id IS NOT NULL AND client_email IS NOT NULL AND token_uri IS NOT NULL)
    )
);

CREATE INDEX credential_by_app ON peal.credential (app_id, provider) WHERE state <> 'removed';

-- The bearer that a credential sends with now: minted once, used by every process, sealed like the key.
CREATE TABLE peal.provider_token (
    credential_id bigint PRIMARY KEY REFERENCES peal.credential (id),
    sealed bytea NOT NULL,
    issued_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);

-- One installation of an app. `id` never changes and never moves to another token: a token met while an audience is
-- being frozen is met once.
-- No foreign key on app_id: it would lock the app's row once per registration, which costs a fifth of an import, and
-- whoever inserts here has looked the app up by its slug.
CREATE TABLE peal.device (
    app_id integer NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    channel text NOT NULL CONSTRAINT device_channel_value CHECK (channel IN ('ios', 'android')),
    environment text NOT NULL DEFAULT 'production'
        CONSTRAINT device_environment_value CHECK (environment IN ('production', 'sandbox')),
    -- Which provider host serves it: 1 APNs production, 2 APNs sandbox, 3 FCM.
    route smallint NOT NULL GENERATED ALWAYS AS (
        CASE WHEN channel = 'android' THEN 3 WHEN environment = 'sandbox' THEN 2 ELSE 1 END
    ) STORED,
    token text,
    voip_token text,
    installation_id text,
    external_id text,
    tags jsonb NOT NULL DEFAULT '{}' CONSTRAINT device_tags_form CHECK (jsonb_typeof(tags) = 'object'),
    locale text,
    timezone text,
    app_version text,
    os_version text,
    model text,
    -- When the app last said that the token is current: a provider's older word against it does not count.
    registered_at timestamptz NOT NULL DEFAULT now(),
    voip_registered_at timestamptz,
    disabled_at timestamptz,
    disabled_reason text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, id),
    CONSTRAINT device_has_token CHECK (token IS NOT NULL OR voip_token IS NOT NULL)
);

-- Tokens may be longer than an index entry, so their hash is what is unique.
CREATE UNIQUE INDEX device_token ON peal.device (app_id, channel, (md5(token)::uuid)) WHERE token IS NOT NULL;
CREATE UNIQUE INDEX device_voip_token ON peal.device (app_id, (md5(voip_token)::uuid)) WHERE voip_token IS NOT NULL;
CREATE UNIQUE INDEX device_installation ON peal.device (app_id, installation_id) WHERE installation_id IS NOT NULL;
CREATE INDEX device_external_id ON peal.device (app_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX device_tags ON peal.device USING gin (tags jsonb_path_ops);

-- A named filter of an app's devices.
CREATE TABLE peal.segment (
    app_id integer NOT NULL REFERENCES peal.app (id),
    name text NOT NULL CONSTRAINT segment_name_form CHECK (length(name) BETWEEN 1 AND 128),
    filter jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, name)
);

-- One send. Inserted by anyone who may; every column below `internal` is peal's own.
CREATE TABLE peal.job (
    id uuid PRIMARY KEY DEFAULT peal.uuid_v7(),
    app text NOT NULL,
    kind text NOT NULL DEFAULT 'push',
    lane text,
    audience jsonb NOT NULL,
    content jsonb NOT NULL,
    send_at timestamptz,
    -- Wider than its range, so that a value beyond it is refused by name.
    ttl bigint,
    collapse_id text,
    idempotency_key text,
    throttle_per_second integer,
    on_doubt text NOT NULL DEFAULT 'resend',
    local_time text,
    -- internal
    app_id integer NOT NULL,
    slot smallint NOT NULL,
    state text NOT NULL,
    queued_at timestamptz NOT NULL,
    started_at timestamptz,
    completed_at timestamptz,
    paused_at timestamptz,
    cancelled_at timestamptz,
    expires_at timestamptz NOT NULL,
    -- Why a job was discarded.
    failure text,
    -- Freezing the audience: the partition of its pages, the last device id read, and what was counted so far.
    audience_at timestamptz,
    freeze_cursor bigint NOT NULL DEFAULT 0,
    frozen_at timestamptz,
    audience_count bigint NOT NULL DEFAULT 0,
    page_count integer NOT NULL DEFAULT 0,
    -- The fan-out cursor: pages below it became batches (or, after cancel or expiry, results).
    published_pages integer NOT NULL DEFAULT 0,
    -- Which fan-out works on it: a write under another token changes nothing. Until when; for a job that nobody has begun,
    -- when it is due.
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    lease_token uuid
);

CREATE UNIQUE INDEX job_idempotency ON peal.job (app_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_due ON peal.job (send_at) WHERE state = 'scheduled';
-- Jobs with work left for the scheduler or the fan-out. Those that are not due yet have none, and may be millions.
CREATE INDEX job_open ON peal.job (id)
WHERE completed_at IS NULL AND state IN ('available', 'running', 'cancelled', 'discarded');
CREATE INDEX job_by_app ON peal.job (app_id, id);
-- Ended jobs by the day of their results, which they are dropped with.
CREATE INDEX job_ended ON peal.job ((coalesce(audience_at, completed_at))) WHERE completed_at IS NOT NULL;

-- The frozen audience: sorted device ids, one route a page. Written once; dropped by partition.
CREATE TABLE peal.audience_page (
    job_id uuid NOT NULL,
    page_no integer NOT NULL,
    -- The job's audience_at: all pages of a job are in one partition.
    audience_at timestamptz NOT NULL,
    route smallint NOT NULL,
    size integer NOT NULL,
    first_id bigint NOT NULL,
    last_id bigint NOT NULL,
    ids bigint[] NOT NULL,
    PRIMARY KEY (job_id, page_no, audience_at)
) PARTITION BY RANGE (audience_at);

-- Ids do not compress for the time it costs to try.
ALTER TABLE peal.audience_page ALTER COLUMN ids SET STORAGE EXTERNAL;

CREATE SEQUENCE peal.batch_id;

-- The hot table: a slice of an audience page, ready or leased. No lease column is in an index or in a predicate of
-- one, so that each update stays on its page (HOT); two indexes a lane and no more.
CREATE TABLE peal.batch (
    slot smallint NOT NULL,
    lane smallint NOT NULL,
    id bigint NOT NULL DEFAULT nextval('peal.batch_id'),
    -- The fair order: a start tag, so that the next claim needs no ranking.
    vt bigint NOT NULL,
    app_id integer NOT NULL,
    job_id uuid NOT NULL,
    route smallint NOT NULL,
    page_no integer NOT NULL,
    page_offset integer NOT NULL,
    size integer NOT NULL,
    -- The send attempt that this batch makes, from 1.
    attempt smallint NOT NULL DEFAULT 1,
    expires_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    -- How often it was claimed, and at which claim something was last settled: far apart means poison.
    lease_no integer NOT NULL DEFAULT 0,
    settled_lease_no integer NOT NULL DEFAULT 0,
    lease_token uuid,
    -- Bit i: recipient i of the slice has its outcome, or waits in batch_delayed.
    done bytea NOT NULL,
    -- Recipients below it may have been submitted; those at or above it certainly were not.
    sending_to integer NOT NULL DEFAULT 0
) PARTITION BY LIST (lane);

CREATE TABLE peal.batch_call PARTITION OF peal.batch FOR VALUES IN (1);
CREATE TABLE peal.batch_transactional PARTITION OF peal.batch FOR VALUES IN (2);
CREATE TABLE peal.batch_campaign PARTITION OF peal.batch FOR VALUES IN (3);

DO $$
DECLARE
    leaf text;
BEGIN
    FOREACH leaf IN ARRAY ARRAY['batch_call', 'batch_transactional', 'batch_campaign'] LOOP
        EXECUTE format('CREATE UNIQUE INDEX %I ON peal.%I (slot, id)', leaf || '_key', leaf);
        EXECUTE format('CREATE INDEX %I ON peal.%I (slot, vt, id)', leaf || '_order', leaf);
        EXECUTE format(
            'ALTER TABLE peal.%I SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, '
            'autovacuum_vacuum_threshold = 300, autovacuum_analyze_scale_factor = 0, '
            'autovacuum_analyze_threshold = 1000, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off)',
            leaf
        );
    END LOOP;
END
$$;

-- Batches that wait: retries until they are due, held ones (due at infinity) until their job is resumed.
CREATE TABLE peal.batch_delayed (
    slot smallint NOT NULL,
    id bigint NOT NULL DEFAULT nextval('peal.batch_id'),
    due_at timestamptz NOT NULL,
    -- While held: when it would have been due.
    resume_at timestamptz,
    lane smallint NOT NULL,
    app_id integer NOT NULL,
    job_id uuid NOT NULL,
    route smallint NOT NULL,
    page_no integer NOT NULL,
    page_offset integer NOT NULL,
    size integer NOT NULL,
    attempt smallint NOT NULL,
    expires_at timestamptz NOT NULL,
    done bytea NOT NULL,
    sending_to integer NOT NULL DEFAULT 0,
    -- What the last attempt ended as.
    reason text,
    PRIMARY KEY (slot, id)
);

CREATE INDEX batch_delayed_due ON peal.batch_delayed (slot, due_at);
CREATE INDEX batch_delayed_job ON peal.batch_delayed (job_id);

-- What became of each recipient: one row each, written once. Days are partitions, and a day is dropped as a whole.
CREATE TABLE peal.result (
    job_id uuid NOT NULL,
    -- 0 where an id of the audience matched no device; external_id then says which.
    device_id bigint NOT NULL,
    route smallint NOT NULL,
    outcome smallint NOT NULL,
    attempt smallint NOT NULL,
    http_status smallint,
    reason text,
    -- The provider's own id, where it is not the one that follows from job and device (see peal.apns_id).
    provider_id text,
    provider_unique_id text,
    external_id text,
    recorded_at timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (recorded_at);

-- Counts yet to be rolled up: appended by each flush, so that no flush waits for another's row.
CREATE TABLE peal.stat_delta (
    job_id uuid NOT NULL,
    outcome smallint NOT NULL,
    reason text NOT NULL DEFAULT '',
    n bigint NOT NULL
);

CREATE INDEX stat_delta_job ON peal.stat_delta (job_id);

CREATE TABLE peal.job_stat (
    job_id uuid NOT NULL,
    outcome smallint NOT NULL,
    reason text NOT NULL DEFAULT '',
    n bigint NOT NULL,
    PRIMARY KEY (job_id, outcome, reason)
);

ALTER TABLE peal.stat_delta SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The newest tag that was claimed in a lane: what an app that begins to send is lined up with.
CREATE TABLE peal.lane_clock (
    slot smallint NOT NULL,
    lane smallint NOT NULL,
    vt bigint NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (slot, lane)
) WITH (fillfactor = 20);

INSERT INTO peal.lane_clock (slot, lane) VALUES (0, 1), (0, 2), (0, 3);

-- The last tag that an app was given in a lane.
CREATE TABLE peal.app_lane (
    app_id integer NOT NULL,
    lane smallint NOT NULL,
    last_vt bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (app_id, lane)
) WITH (fillfactor = 50);

-- Who does a maintenance duty now. An economy, never a lock: two at once do no harm.
CREATE TABLE peal.role_lease (
    role text PRIMARY KEY,
    holder uuid,
    term bigint NOT NULL DEFAULT 0,
    lease_until timestamptz NOT NULL DEFAULT '-infinity'
);

-- The names of the numbers that hot rows carry.
CREATE FUNCTION peal.outcome_name(outcome smallint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (ARRAY['accepted', 'rejected', 'skipped', 'expired', 'superseded', 'cancelled', 'unknown'])[outcome]
$$;

CREATE FUNCTION peal.lane_number(lane text) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT array_position(ARRAY['call', 'transactional', 'campaign'], lane)::smallint
$$;

CREATE FUNCTION peal.route_channel(route smallint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN route IN (1, 2, 4, 5) THEN 'ios' WHEN route = 3 THEN 'android' END
$$;

-- The apns-id of a message: it follows from job and device, so that each attempt repeats it and no row stores it.
-- The first half is the job id's; the second is the job id's second half XOR the device id.
CREATE FUNCTION peal.apns_id(job_id uuid, device_id bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT encode(
        substring(uuid_send(job_id) FROM 1 FOR 8)
            || int8send((('x' || substr(replace(job_id::text, '-', ''), 17, 16))::bit(64)::bigint) # device_id),
        'hex'
    )::uuid
$$;

-- Makes the day partitions of the append-only tables for today and the given number of days ahead.
-- Two at once are safe: one waits, and finds them made. It acts as the owner of the tables, whichever worker calls it.
CREATE FUNCTION peal.make_partitions(days_ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parent text;
    day date;
    child text;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('peal.make_partitions'));
    FOREACH parent IN ARRAY ARRAY['result', 'audience_page'] LOOP
        FOR day IN
            SELECT ((now() AT TIME ZONE 'UTC')::date + n)::date FROM generate_series(-1, days_ahead) AS n
        LOOP
            child := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
            CONTINUE WHEN to_regclass(format('peal.%I', child)) IS NOT NULL;
            EXECUTE format(
                'CREATE TABLE peal.%I PARTITION OF peal.%I FOR VALUES FROM (%L) TO (%L)',
                child, parent, day::text || ' 00:00:00+00', (day + 1)::text || ' 00:00:00+00'
            );
            IF parent = 'result' THEN
                -- Job ids grow with time, so a summary of each block range finds a job's rows, or those of a moment,
                -- at next to no cost.
                EXECUTE format(
                    'CREATE INDEX %I ON peal.%I USING brin (job_id, recorded_at) WITH (pages_per_range = 32, autosummarize = on)',
                    child || '_job', child
                );
            END IF;
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;

SELECT peal.make_partitions(7);
