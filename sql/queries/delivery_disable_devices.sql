-- Disables devices on a provider's word about their token: only where the device still has that token, and was not
-- registered after the provider last found the token invalid. Waits for nobody: what somebody has locked is left out.
-- Parameters, arrays in step: $1 app id integer, $2 device ids bigint[], $3 tokens bytea[], $4 invalid since
-- timestamptz[] (infinity: now), $5 reasons text[].
-- Rows: id bigint and `is_locked` boolean of each device that was disabled (false), or is locked and may have to be (true).
-- Index: primary key of device; the app is a sub-select, see peal.resolve_named. The rows are locked in the order of their ids.
WITH given AS MATERIALIZED (
    SELECT g.id, g.token, least(g.invalid_since, now()) AS invalid_since, g.reason
    FROM unnest($2::bigint[], $3::bytea[], $4::timestamptz[], $5::text[]) AS g (id, token, invalid_since, reason)
), free AS MATERIALIZED (
    SELECT d.id FROM peal.device AS d
    WHERE d.app_id = (SELECT $1::integer) AND d.id = ANY ($2::bigint[])
    ORDER BY d.id
    FOR NO KEY UPDATE SKIP LOCKED
), disabled AS (
    UPDATE peal.device AS d SET disabled_at = now(), disabled_reason = g.reason, updated_at = now()
    FROM given AS g
    JOIN free AS f ON f.id = g.id
    WHERE d.app_id = (SELECT $1::integer) AND d.id = ANY ($2::bigint[]) AND d.id = g.id
        AND d.token = convert_from(g.token, 'UTF8') AND d.registered_at <= g.invalid_since AND d.disabled_at IS NULL
    RETURNING d.id
)
SELECT x.id, false AS is_locked FROM disabled AS x
UNION ALL
SELECT d.id, true FROM peal.device AS d
WHERE d.app_id = (SELECT $1::integer) AND d.id = ANY ($2::bigint[]) AND d.disabled_at IS NULL
    AND d.id NOT IN (SELECT f.id FROM free AS f)
