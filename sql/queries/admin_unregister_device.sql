-- Removes devices through the SQL interface.
-- Parameters: $1 slug text, $2 which jsonb. Rows: one. removed integer.
SELECT peal.unregister_device($1, $2) AS removed
