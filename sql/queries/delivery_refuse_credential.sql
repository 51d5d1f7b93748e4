-- Marks a credential as refused by its provider, unless it was changed since it was read.
-- Parameters: $1 credential id bigint, $2 its updated_at timestamptz, $3 reason text.
-- Rows: one if it was marked. id bigint. Index: primary key.
UPDATE peal.credential AS c SET state = 'refused', state_reason = $3::text, updated_at = now()
WHERE c.id = $1::bigint AND c.state = 'active' AND c.updated_at = $2::timestamptz
RETURNING c.id
