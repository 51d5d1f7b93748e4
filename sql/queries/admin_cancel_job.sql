-- Cancels a job through the SQL interface.
-- Parameters: $1 job id uuid. Rows: one. state text.
SELECT peal.cancel_job($1) AS state
