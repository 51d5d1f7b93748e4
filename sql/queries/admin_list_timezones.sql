-- The time zone names that peal.register_device accepts.
-- Parameters: none. Rows: name text.
SELECT name FROM pg_timezone_names WHERE name ~ '^([A-Za-z]+(/[A-Za-z0-9_+-]+)+|UTC)$'
