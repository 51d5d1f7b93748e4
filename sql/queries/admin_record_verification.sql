-- Records what a probe of a credential found.
-- Parameters: $1 credential id bigint, $2 accepted boolean, $3 reason text or null. Rows affected: one.
UPDATE peal.credential SET
    state = CASE WHEN $2 THEN 'active' ELSE 'refused' END,
    state_reason = $3,
    verified_at = CASE WHEN $2 THEN now() ELSE verified_at END,
    updated_at = now()
WHERE id = $1 AND state <> 'removed'
