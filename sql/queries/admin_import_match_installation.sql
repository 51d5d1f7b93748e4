-- Finds the device of each row's installation.
-- Parameters: $1 app id integer. Rows affected: those found. Index: device_installation, once for each row.
UPDATE pg_temp.device_import AS r SET installed_id = found.id
FROM pg_temp.device_import AS i
CROSS JOIN LATERAL (
    SELECT d.id FROM peal.device AS d WHERE d.app_id = (SELECT $1::integer) AND d.installation_id = i.installation_id
    OFFSET 0
) AS found
WHERE r.ctid = i.ctid
