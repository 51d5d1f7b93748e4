-- Where no device holds the token yet, the installation's device takes it, unless another row's token is on it.
-- Parameters: none. Rows affected: the rows that found their device so.
UPDATE pg_temp.device_import AS r SET device_id = r.installed_id
WHERE r.device_id IS NULL AND r.installed_id IS NOT NULL
    AND r.installed_id NOT IN (SELECT o.device_id FROM pg_temp.device_import AS o WHERE o.device_id IS NOT NULL)
