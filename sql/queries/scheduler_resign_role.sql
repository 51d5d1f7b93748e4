-- Gives up the lease of a maintenance duty.
-- Parameters: $1 role text, $2 holder uuid. Rows: one. was_held boolean. Index: primary key of role_lease.
SELECT peal.resign_role($1::text, $2::uuid) AS was_held
