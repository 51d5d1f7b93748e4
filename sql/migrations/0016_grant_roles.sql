-- The roles and what they may. It stands after every function, because PUBLIC may execute a new one until this takes the
-- right away: a later migration that makes functions must do the same for them.

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

GRANT INSERT (
    id, app, kind, lane, audience, content, send_at, ttl, collapse_id, idempotency_key, throttle_per_second, on_doubt,
    local_time
) ON peal.job TO peal_producer;
GRANT SELECT (id, idempotency_key) ON peal.job TO peal_producer;
GRANT SELECT ON peal.job_status TO peal_producer, peal_reader;
GRANT SELECT ON peal.recipient_result TO peal_reader;
-- What a default and an index of the job table call runs with the rights of whoever inserts.
GRANT EXECUTE ON FUNCTION peal.uuid_v7(), peal.due_span(timestamptz) TO peal_producer;
GRANT EXECUTE ON FUNCTION
    peal.job_remaining(peal.job), peal.lane_number(text), peal.outcome_name(smallint)
TO peal_producer, peal_reader;
GRANT EXECUTE ON FUNCTION peal.route_channel(smallint), peal.apns_id(uuid, bigint) TO peal_reader;
