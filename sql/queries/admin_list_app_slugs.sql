-- The slugs of all apps, to suggest the nearest one.
-- Parameters: none. Rows: slug text.
SELECT slug FROM peal.app ORDER BY slug LIMIT 1000
