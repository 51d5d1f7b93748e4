-- Takes a VoIP token off the device that had it, where a row brings it to another device. A device that had nothing
-- else is removed.
-- Parameters: $1 app id integer. Rows affected: devices changed. Index: device_voip_token, once for each row.
WITH moved AS (
    SELECT found.id, found.has_token
    FROM pg_temp.device_import AS r
    CROSS JOIN LATERAL (
        SELECT d.id, d.token IS NOT NULL AS has_token FROM peal.device AS d
        WHERE d.app_id = (SELECT $1::integer) AND md5(d.voip_token)::uuid = md5(r.voip_token)::uuid
            AND d.id IS DISTINCT FROM r.device_id
        OFFSET 0
    ) AS found
),
removed AS (
    DELETE FROM peal.device AS d USING moved AS m WHERE d.app_id = (SELECT $1::integer) AND d.id = m.id AND NOT m.has_token
    RETURNING d.id
)
UPDATE peal.device AS d SET voip_token = NULL, voip_registered_at = NULL
FROM moved AS m
WHERE d.app_id = (SELECT $1::integer) AND d.id = m.id AND m.has_token
