-- Drops the oldest day partition that retention lets go, if there is one.
-- Parameters: $1 days to keep integer. Rows: one. dropped text: its name, or null.
SELECT peal.drop_old_partition($1::integer) AS dropped
