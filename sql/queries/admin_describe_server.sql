-- Describes the server and the user, for the doctor.
-- Parameters: none. Rows: one. version_num integer, version text, writable boolean, now timestamptz, pid integer,
-- database_name text, user_name text, max_connections integer, connections bigint, may_create_temporary boolean.
SELECT
    current_setting('server_version_num')::integer AS version_num,
    current_setting('server_version') AS version,
    NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AS writable,
    clock_timestamp() AS now,
    pg_backend_pid() AS pid,
    current_database()::text AS database_name,
    current_user::text AS user_name,
    current_setting('max_connections')::integer AS max_connections,
    -- Of other users' sessions a role without pg_read_all_stats sees these two columns, and not the kind. What works for the
    -- server itself lacks one of them.
    (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL) AS connections,
    has_database_privilege(current_database(), 'TEMPORARY') AS may_create_temporary
