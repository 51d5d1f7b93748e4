-- Takes or renews the lease of a maintenance duty.
-- Parameters: $1 role text, $2 holder uuid, $3 lease in milliseconds bigint.
-- Rows: one with term bigint, or none where somebody else holds it. Index: primary key of role_lease.
SELECT h.term FROM peal.hold_role($1::text, $2::uuid, $3::bigint * interval '1 millisecond') AS h (term)
