-- Changes the settings of an app; a null leaves one as it is. An empty name clears it.
-- Parameters: $1 slug text, $2 name text, $3 weight integer, $4 default_ttl integer, $5 on_credential_failure text.
-- Rows affected: one, or none when there is no such app.
UPDATE peal.app SET
    name = CASE WHEN $2::text IS NULL THEN name ELSE nullif($2, '') END,
    weight = coalesce($3, weight),
    default_ttl = coalesce($4, default_ttl),
    on_credential_failure = coalesce($5, on_credential_failure)
WHERE slug = $1
