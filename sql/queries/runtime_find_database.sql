-- Whether the server has a database called peal.
-- Rows: one. exists boolean.
SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'peal') AS exists
