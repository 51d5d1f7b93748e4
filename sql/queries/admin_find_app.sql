-- Finds an app.
-- Parameters: $1 slug text. Rows: none or one. id integer. Index: app_slug_key.
SELECT id FROM peal.app WHERE slug = $1
