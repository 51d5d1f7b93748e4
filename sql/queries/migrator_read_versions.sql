-- Reads the migrations that this database has had.
-- Rows: one each, in order. number integer, name text, is_breaking boolean.
-- Index: the primary key.
SELECT number, name, is_breaking FROM peal.schema_version ORDER BY number
