-- Takes a VoIP token off the device that had it, where a row brings it to another device. A device that had nothing
-- else is removed.
-- Parameters: $1 app id integer. Rows affected: devices changed. Index: device_voip_token.
WITH moved AS (
    SELECT d.id, d.token IS NOT NULL AS has_token
    FROM pg_temp.device_import AS r
    JOIN peal.device AS d ON d.app_id = (SELECT $1::integer) AND md5(d.voip_token)::uuid = md5(r.voip_token)::uuid
        AND d.id IS DISTINCT FROM r.device_id
),
removed AS (
    DELETE FROM peal.device AS d USING moved AS m WHERE d.app_id = (SELECT $1::integer) AND d.id = m.id AND NOT m.has_token
    RETURNING d.id
)
UPDATE peal.device AS d SET voip_token = NULL, voip_registered_at = NULL
FROM moved AS m
WHERE d.app_id = (SELECT $1::integer) AND d.id = m.id AND m.has_token
