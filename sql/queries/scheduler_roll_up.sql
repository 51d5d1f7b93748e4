-- Adds counts into the totals of their jobs, and ends the jobs that are complete with them.
-- Parameters: $1 limit integer. Rows: one. taken integer: counts taken, completed integer: jobs ended.
SELECT r.taken, r.completed FROM peal.roll_up($1::integer) AS r
