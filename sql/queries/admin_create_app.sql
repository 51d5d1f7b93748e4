-- Adds an app.
-- Parameters: $1 slug text, $2 name text or null. Rows: one, or none when the slug is taken. id integer.
INSERT INTO peal.app (slug, name) VALUES ($1, $2) ON CONFLICT (slug) DO NOTHING RETURNING id
