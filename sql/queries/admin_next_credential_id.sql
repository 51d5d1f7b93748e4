-- Takes the id of a credential to come: the sealed key is bound to it, so it must be known before the row is there.
-- Parameters: none. Rows: one. id bigint.
SELECT nextval(pg_get_serial_sequence('peal.credential', 'id')) AS id
