-- Finds the device that holds each row's token.
-- Parameters: $1 app id integer. Rows affected: those found. Index: device_token.
UPDATE pg_temp.device_import AS r SET device_id = d.id
FROM peal.device AS d
WHERE d.app_id = (SELECT $1::integer) AND d.channel = r.channel AND md5(d.token)::uuid = md5(r.token)::uuid AND d.token = r.token
