-- Counts whom a send would reach, by channel, and whom it would skip, by reason.
-- Parameters: $1 slug text, $2 audience jsonb, $3 content jsonb, $4 collapse id text or null.
-- Rows: channel text, skipped_reason text, n bigint, payload_bytes integer.
SELECT
    p.channel, p.skipped_reason, sum(p.n)::bigint AS n,
    CASE p.channel
        WHEN 'ios' THEN peal.payload_bytes($3, 'apns', $4)
        WHEN 'android' THEN peal.payload_bytes($3, 'fcm', $4)
    END AS payload_bytes
FROM peal.preview_audience($1, $2) AS p
GROUP BY p.channel, p.skipped_reason
ORDER BY p.skipped_reason NULLS FIRST, p.channel
