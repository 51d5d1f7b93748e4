-- Finds the device of each row's installation.
-- Parameters: $1 app id integer. Rows affected: those found. Index: device_installation.
UPDATE pg_temp.device_import AS r SET installed_id = d.id
FROM peal.device AS d
WHERE d.app_id = (SELECT $1::integer) AND d.installation_id = r.installation_id
