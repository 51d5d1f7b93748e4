-- Lets one migrator at a time go on. The lock ends with the transaction; the number only has to be ours.
-- Rows: one, empty.
SELECT pg_advisory_xact_lock(8097401120)
