-- Notes a migration as applied, in its own transaction and before its script, so that a second one fails at once.
-- Parameters: $1 number integer, $2 name text, $3 is_breaking boolean.
INSERT INTO peal.schema_version (number, name, is_breaking) VALUES ($1, $2, $3)
