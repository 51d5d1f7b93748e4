-- Says whether the server accepts writes, and what time it is there.
-- Rows: one. writable boolean, now timestamptz.
SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AS writable, now() AS now
