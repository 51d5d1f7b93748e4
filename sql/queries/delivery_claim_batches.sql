-- Claims ready batches of one slot and lane in their fair order: peal.claim_batches_campaign and its twins.
-- Parameters: $1 slot smallint, $2 lease in milliseconds bigint, $3 limit integer, $4 lowest vt bigint, $5 apps of which
-- the caller has enough in hand integer[], $6 how many recipients of each may be submitted at once integer.
-- Rows: the claimed batches in no order.
SELECT
    c.id, c.vt, c.app_id, c.job_id, c.route, c.page_no, c.page_offset, c.size, c.attempt, c.expires_at, c.lease_no,
    c.settled_lease_no, c.lease_token, c.done, c.sending_to, c.sent_to, c.audience_at, c.server_time
FROM peal.claim_batches_campaign(
    $1::smallint, $2::bigint * interval '1 millisecond', $3::integer, $4::bigint, $5::integer[], $6::integer
) AS c
