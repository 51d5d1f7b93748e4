-- Says how many rows bring an installation to another device than the one it is on.
-- Parameters: none. Rows: one. n bigint.
SELECT count(*) AS n
FROM pg_temp.device_import AS r
WHERE r.installed_id IS NOT NULL AND r.installed_id IS DISTINCT FROM r.device_id
