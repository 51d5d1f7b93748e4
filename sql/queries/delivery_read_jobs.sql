-- What delivery needs to know of the jobs whose batches it took in hand: peal.read_sent_jobs.
-- Parameters: $1 job ids uuid[]. Rows: one a job that exists, in no order.
SELECT
    j.id, j.app_id, j.app_slug, j.on_credential_failure, j.state, j.is_paused, j.kind, j.content, j.collapse_id, j.ttl,
    j.expires_at, j.on_doubt
FROM peal.read_sent_jobs($1::uuid[]) AS j
