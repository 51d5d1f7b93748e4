-- Lists the credentials of an app, or of all apps, without those removed.
-- Parameters: $1 slug text or null. Rows: id bigint, app_id integer, app text, provider text, environment text,
-- key_id text, team_id text, topic text, project_id text, client_email text, token_uri text, endpoint text,
-- state text, state_reason text, verified_at timestamptz, created_at timestamptz, sealed bytea.
-- Index: credential_by_app.
SELECT
    c.id, c.app_id, a.slug AS app, c.provider, c.environment, c.key_id, c.team_id, c.topic, c.project_id,
    c.client_email, c.token_uri, c.endpoint, c.state, c.state_reason, c.verified_at, c.created_at, c.sealed
FROM peal.credential AS c
JOIN peal.app AS a ON a.id = c.app_id
WHERE c.state <> 'removed' AND ($1::text IS NULL OR a.slug = $1)
ORDER BY a.slug, c.id
