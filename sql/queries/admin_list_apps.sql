-- Lists the apps.
-- Parameters: none. Rows: slug text, name text, weight integer, default_ttl integer, on_credential_failure text,
-- credentials bigint, created_at timestamptz. Index: credential_by_app.
SELECT
    a.slug, a.name, a.weight, a.default_ttl, a.on_credential_failure,
    (SELECT count(*) FROM peal.credential AS c WHERE c.app_id = a.id AND c.state <> 'removed') AS credentials,
    a.created_at
FROM peal.app AS a
ORDER BY a.slug
