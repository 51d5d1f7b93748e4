-- Ends jobs that are complete though no roll-up told so; a slow round over all jobs in hand.
-- Parameters: $1 look at ids after this uuid, $2 limit integer.
-- Rows: one. last_id uuid: where the next step begins (null: the round is over), completed integer.
SELECT c.last_id, c.completed FROM peal.complete_settled_jobs($1::uuid, $2::integer) AS c
