-- Leaves a small job to be frozen by itself, step by step.
-- Parameters: $1 job id uuid. Rows affected: one, or none where it is taken already. Index: primary key of job.
UPDATE peal.job AS j SET small_size = NULL
WHERE j.id = $1::uuid AND j.small_size IS NOT NULL AND j.state = 'available'
