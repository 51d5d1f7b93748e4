-- Takes an installation id off the device that had it, where a row brings the installation to another device. The old
-- device stays only when a row of this chunk holds its token.
-- Parameters: $1 app id integer. Rows affected: devices removed or changed.
WITH moved AS (
    SELECT r.installed_id AS id,
        EXISTS (SELECT FROM pg_temp.device_import AS o WHERE o.device_id = r.installed_id) AS is_held
    FROM pg_temp.device_import AS r
    WHERE r.installed_id IS NOT NULL AND r.installed_id IS DISTINCT FROM r.device_id
),
removed AS (
    DELETE FROM peal.device AS d USING moved AS m
    WHERE d.app_id = (SELECT $1::integer) AND d.id = m.id AND NOT m.is_held
    RETURNING d.id
)
UPDATE peal.device AS d SET installation_id = NULL
FROM moved AS m
WHERE d.app_id = (SELECT $1::integer) AND d.id = m.id AND m.is_held
