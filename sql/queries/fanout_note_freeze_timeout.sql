-- Notes that a step of a job's freeze ran out of time, and gives the job up when that came to pass too often in a row.
-- Parameters: $1 job id uuid, $2 lease token uuid, $3 how often it may integer.
-- Rows: one. is_given_up boolean. Index: primary key of job.
SELECT peal.note_freeze_timeout($1::uuid, $2::uuid, $3::integer) AS is_given_up
