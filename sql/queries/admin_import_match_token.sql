-- Finds the device that holds each row's token.
-- Parameters: $1 app id integer. Rows affected: those found. Index: device_token, once for each row.
UPDATE pg_temp.device_import AS r SET device_id = found.id
FROM pg_temp.device_import AS i
CROSS JOIN LATERAL (
    SELECT d.id FROM peal.device AS d
    WHERE d.app_id = (SELECT $1::integer) AND d.channel = i.channel AND md5(d.token)::uuid = md5(i.token)::uuid
        AND d.token = i.token
    OFFSET 0
) AS found
WHERE r.ctid = i.ctid
