-- Takes an installation id off the device that had it, where a row brings the installation to another device. The old
-- device stays only when a row of this chunk holds its token.
-- Parameters: $1 app id integer. Rows affected: devices removed or changed. Index: device_pkey, once for each row; see
-- admin_import_update_devices.
WITH moved AS (
    SELECT found.place,
        EXISTS (SELECT FROM pg_temp.device_import AS o WHERE o.device_id = r.installed_id) AS is_held
    FROM pg_temp.device_import AS r
    CROSS JOIN LATERAL (
        SELECT e.ctid AS place FROM peal.device AS e WHERE e.app_id = (SELECT $1::integer) AND e.id = r.installed_id
        OFFSET 0
    ) AS found
    WHERE r.installed_id IS NOT NULL AND r.installed_id IS DISTINCT FROM r.device_id
),
removed AS (
    DELETE FROM peal.device AS d USING moved AS m
    WHERE d.ctid = m.place AND NOT m.is_held
    RETURNING d.id
)
UPDATE peal.device AS d SET installation_id = NULL
FROM moved AS m
WHERE d.ctid = m.place AND m.is_held
