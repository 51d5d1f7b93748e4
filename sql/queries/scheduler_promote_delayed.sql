-- Moves batches whose wait is over into the ready queue; ends those whose job or time is over.
-- Parameters: $1 slot smallint, $2 limit integer.
-- Rows: one. taken integer: rows taken up, lanes text[]: lanes that have something ready now.
-- Index: batch_delayed_due.
SELECT p.taken, p.lanes FROM peal.promote_delayed($1::smallint, $2::integer) AS p
