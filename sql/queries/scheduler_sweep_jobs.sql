-- Gives unsent recipients of cancelled, discarded and expired jobs their outcome, one step.
-- Parameters: $1 limit of jobs integer, $2 limit of recipients integer.
-- Rows: one. settled bigint: recipients that got their outcome; 0: nothing is left for now.
-- Index: job_ending, job_expiry; batch_delayed_job. Scans the ready queue when a job has ended early.
SELECT peal.sweep_ended_jobs($1::integer, $2::integer) AS settled
