-- When the first and the last result of a job were recorded, so far.
-- Parameters: $1 job id uuid. Rows: one. first timestamptz or null, last timestamptz or null.
-- Index: the index of each day's partition on job and time.
SELECT min(r.recorded_at) AS first, max(r.recorded_at) AS last FROM peal.result AS r WHERE r.job_id = $1
