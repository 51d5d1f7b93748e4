-- What delivery needs to know of the jobs whose batches it took in hand.
-- Parameters: $1 job ids uuid[]. Rows: one a job that exists, in no order. Index: primary keys.
SELECT
    j.id, j.app_id, a.slug AS app_slug, a.on_credential_failure, j.state, j.paused_at IS NOT NULL AS is_paused, j.kind,
    j.content, j.collapse_id, j.ttl::integer, j.expires_at, j.on_doubt
FROM peal.job AS j
JOIN peal.app AS a ON a.id = j.app_id
WHERE j.id = ANY ($1::uuid[])
