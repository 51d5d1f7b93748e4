-- Locks the devices that will be changed, in the order of their ids, so that two imports cannot deadlock.
-- Parameters: $1 app id integer. Rows: one. n bigint, how many. Index: device_pkey, once for each device.
SELECT count(*) AS n
FROM (
    SELECT r.device_id AS id FROM pg_temp.device_import AS r
    UNION
    SELECT r.installed_id FROM pg_temp.device_import AS r
    ORDER BY id
) AS wanted
CROSS JOIN LATERAL (
    SELECT FROM peal.device AS d WHERE d.app_id = (SELECT $1::integer) AND d.id = wanted.id
    FOR UPDATE
) AS locked
