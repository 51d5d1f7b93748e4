-- The small job of a lane that a turn of one job takes: the first of the app whose turn is next.
-- Parameters: $1 lane text, $2 the app to begin after integer.
-- Rows: one, or none where nothing waits. job_id uuid, app_id integer. Index: job_small.
SELECT w.id AS job_id, w.app_id
FROM peal.apps_with_jobs($1::text, true, NULL, $2::integer, 1) AS a (app_id)
CROSS JOIN LATERAL (
    SELECT j.id, j.app_id FROM peal.job AS j
    WHERE j.lane = $1::text AND j.app_id = a.app_id
        AND j.small_size IS NOT NULL AND j.state = 'available' AND j.paused_at IS NULL
    ORDER BY j.id
    LIMIT 1
) AS w
