-- Lists credentials under which tokens look dead while no device is disabled for it.
-- Parameters: none. Rows: id bigint, app text, is_proven boolean (a push was accepted with it), suspected integer,
-- held_since timestamptz. Index: none, one row a credential.
SELECT
    c.id, a.slug AS app, v.proven_at IS NOT NULL AS is_proven, cardinality(v.suspects) AS suspected, v.held_since
FROM peal.token_verdict AS v
JOIN peal.credential AS c ON c.id = v.credential_id
JOIN peal.app AS a ON a.id = c.app_id
WHERE v.held_since IS NOT NULL AND c.state <> 'removed'
ORDER BY c.id
