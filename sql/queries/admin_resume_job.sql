-- Resumes a job through the SQL interface.
-- Parameters: $1 job id uuid. Rows: one. state text.
SELECT peal.resume_job($1) AS state
