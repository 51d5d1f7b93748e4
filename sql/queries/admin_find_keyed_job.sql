-- Finds the job that has an idempotency key.
-- Parameters: $1 slug text, $2 idempotency key text. Rows: none or one. id uuid. Index: job_idempotency.
SELECT j.id
FROM peal.app AS a
JOIN peal.job AS j ON j.app_id = a.id
WHERE a.slug = $1 AND j.idempotency_key = $2
