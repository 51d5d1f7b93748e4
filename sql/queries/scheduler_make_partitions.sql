-- Makes the day partitions up to so many days ahead.
-- Parameters: $1 days ahead integer. Rows: one. made integer.
SELECT peal.make_partitions($1::integer) AS made
