-- Describes what is in the schema, for the doctor.
-- Parameters: none. Rows: one. apps bigint, apps_without_credential bigint, refused_credentials bigint,
-- partition_days integer (day partitions of results from today on, without a gap), waiting_jobs bigint (due for more
-- than a minute and not begun), workers bigint (connections to this database that workers hold).
SELECT
    (SELECT count(*) FROM peal.app) AS apps,
    (
        SELECT count(*) FROM peal.app AS a
        WHERE NOT EXISTS (SELECT FROM peal.credential AS c WHERE c.app_id = a.id AND c.state <> 'removed')
    ) AS apps_without_credential,
    (SELECT count(*) FROM peal.credential WHERE state = 'refused') AS refused_credentials,
    coalesce((
        SELECT min(n) FROM generate_series(0, 30) AS n
        WHERE to_regclass(
            'peal.result_' || to_char((now() AT TIME ZONE 'UTC')::date + n, 'YYYYMMDD')
        ) IS NULL
    ), 31) AS partition_days,
    (
        SELECT count(*) FROM peal.job
        WHERE completed_at IS NULL AND state = 'available' AND paused_at IS NULL
            AND send_at < now() - interval '1 minute'
    ) AS waiting_jobs,
    (
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'peal worker%'
    ) AS workers
