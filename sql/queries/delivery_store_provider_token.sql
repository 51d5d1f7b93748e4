-- Stores a bearer that was just made in place of the one that its maker had read. Whoever comes second finds no row
-- returned, and reads the first one's: so all processes send the same text.
-- Parameters: $1 credential id bigint, $2 sealed bytea, $3 issued_at timestamptz, $4 expires_at timestamptz,
-- $5 issued_at of the replaced one timestamptz (null: there was none). Rows: one if it was stored. Index: primary key.
INSERT INTO peal.provider_token AS t (credential_id, sealed, issued_at, expires_at)
VALUES ($1::bigint, $2::bytea, $3::timestamptz, $4::timestamptz)
ON CONFLICT (credential_id) DO UPDATE SET
    sealed = excluded.sealed, issued_at = excluded.issued_at, expires_at = excluded.expires_at
WHERE t.issued_at = $5::timestamptz
RETURNING t.issued_at
