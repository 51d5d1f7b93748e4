-- Disables devices on a provider's word about their token: only where the device still has that token, and was not
-- registered after the provider last found the token invalid.
-- Parameters, arrays in step: $1 app id integer, $2 device ids bigint[], $3 tokens bytea[], $4 invalid since
-- timestamptz[] (infinity: now), $5 reasons text[]. Rows: id bigint of each device that was disabled.
-- Index: primary key of device. The rows are locked in the order of their ids.
WITH given AS MATERIALIZED (
    SELECT g.id, g.token, least(g.invalid_since, now()) AS invalid_since, g.reason
    FROM unnest($2::bigint[], $3::bytea[], $4::timestamptz[], $5::text[]) AS g (id, token, invalid_since, reason)
), dead AS MATERIALIZED (
    SELECT d.id, g.reason
    FROM peal.device AS d
    JOIN given AS g ON g.id = d.id
    WHERE d.app_id = $1::integer AND d.id = ANY ($2::bigint[])
        AND d.token = convert_from(g.token, 'UTF8') AND d.registered_at <= g.invalid_since AND d.disabled_at IS NULL
    ORDER BY d.id
    FOR NO KEY UPDATE OF d
)
UPDATE peal.device AS d SET disabled_at = now(), disabled_reason = x.reason, updated_at = now()
FROM dead AS x
WHERE d.app_id = $1::integer AND d.id = ANY ($2::bigint[]) AND d.id = x.id
RETURNING d.id
