-- Reads which server process answers: a pooler reports another one when connecting than when asked.
-- Rows: one. process_id integer.
SELECT pg_backend_pid() AS process_id
