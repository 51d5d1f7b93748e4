-- What stands in batches whose last flush may or may not have been committed.
-- Parameters: $1 slot smallint, $2 batch ids bigint[]. Rows: those that are still there, in no order.
-- Index: the key (slot, id) of the lane's partition (here the campaign's).
SELECT b.id, b.lease_token, b.done
FROM peal.batch_campaign AS b
WHERE b.slot = $1::smallint AND b.id = ANY ($2::bigint[])
