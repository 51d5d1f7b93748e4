-- Splits a batch that was claimed again and again without an outcome into two halves, each a batch of its own with the
-- same tag. Nothing happens when the lease was lost. Halves without an unset bit are left out.
-- Parameters: $1 slot smallint, $2 batch id bigint, $3 lease token uuid, $4 size of the first half integer,
-- $5 its bitmap bytea, $6 the second half's bitmap bytea. Rows: one a half that was made. id bigint.
-- Index: the key (slot, id) of the lane's partition (here the campaign's).
WITH whole AS (
    DELETE FROM peal.batch_campaign AS b
    WHERE b.slot = $1::smallint AND b.id = $2::bigint AND b.lease_token = $3::uuid
    RETURNING
        b.slot, b.lane, b.vt, b.app_id, b.job_id, b.route, b.page_no, b.page_offset, b.size, b.attempt, b.expires_at,
        b.sending_to
)
INSERT INTO peal.batch_campaign (
    slot, lane, vt, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done, sending_to
)
SELECT
    w.slot, w.lane, w.vt, w.app_id, w.job_id, w.route, w.page_no, w.page_offset + h.first, h.size, w.attempt,
    w.expires_at, h.done, least(greatest(w.sending_to - h.first, 0), h.size)
FROM whole AS w
CROSS JOIN LATERAL (
    VALUES (0, $4::integer, $5::bytea), ($4::integer, w.size - $4::integer, $6::bytea)
) AS h (first, size, done)
WHERE bit_count(h.done) < h.size
RETURNING id
