-- Asks for a send; the row's own checks refuse what cannot be sent.
-- Parameters: $1 slug text, $2 audience jsonb, $3 content jsonb, $4 send at timestamptz or null, $5 ttl integer,
-- $6 collapse id text, $7 idempotency key text, $8 lane text, $9 on doubt text or null.
-- Rows: one. id uuid, lane text, state text, send_at timestamptz, expires_at timestamptz.
INSERT INTO peal.job (app, audience, content, send_at, ttl, collapse_id, idempotency_key, lane, on_doubt)
VALUES ($1, $2, $3, $4::timestamptz, $5, $6, $7, $8, coalesce($9, 'resend'))
RETURNING id, lane, state, send_at, expires_at
