-- The bearer that all processes use for a credential now.
-- Parameters: $1 credential id bigint. Rows: none or one; `now` is the server's time. Index: primary key.
SELECT t.sealed, t.issued_at, t.expires_at, now() AS now
FROM peal.provider_token AS t
WHERE t.credential_id = $1::bigint
