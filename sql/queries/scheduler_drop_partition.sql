-- Drops ended jobs of the oldest day that retention lets go, or its partition once they are gone, if there is one.
-- Parameters: $1 days to keep integer. Rows: one. dropped text: the partition's name, or null.
SELECT peal.drop_old_partition($1::integer) AS dropped
