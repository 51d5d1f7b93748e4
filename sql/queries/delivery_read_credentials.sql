-- The credentials of apps, newest first within an app. Removed ones are left out.
-- Parameters: $1 app ids integer[]. Rows: see the columns; `sealed` opens with the master key alone.
-- held_ms bigint: for how long nothing is to be sent with it. Index: credential_by_app.
SELECT
    c.id, c.app_id, c.provider, c.environment, c.key_id, c.team_id, c.topic, c.project_id, c.client_email, c.token_uri,
    c.endpoint, c.sealed, c.state, c.state_reason, c.updated_at,
    greatest(0, coalesce(extract(epoch FROM c.held_until - now()) * 1000, 0))::bigint AS held_ms, c.held_reason
FROM peal.credential AS c
WHERE c.app_id = ANY ($1::integer[]) AND c.state <> 'removed'
ORDER BY c.app_id, c.updated_at DESC, c.id DESC
