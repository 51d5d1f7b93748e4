-- Claims ready batches of one slot and lane in their fair order. An expired lease is ready: the claim is the reaper.
-- The commit need not wait for the disk: a claim that is lost with the server leaves the batch as it was.
-- The campaign's partition stands for the lane's own: a statement that names its partition keeps its plan (0.07 ms
-- instead of 0.46 through the parent).
-- Parameters: $1 slot smallint, $2 lease in milliseconds bigint, $3 limit integer, $4 lowest vt bigint, $5 apps of which
-- the caller has enough in hand integer[], $6 how many recipients of each may be submitted at once integer: only where
-- the job goes on and may send again in doubt.
-- Rows: the claimed batches in no order. `sending_to`: what may be submitted now; `sent_to`: what a worker before may have
-- submitted, from the row as it was; `audience_at`: in which day its page is; `now`: the server's time.
-- Index: (slot, vt, id) of the partition inside, its key (slot, id) outside; primary key of job. The ARRAY is made once; a join in its
-- place was seen to scan the table.
UPDATE peal.batch_campaign AS b SET
    lease_until = now() + $2::bigint * interval '1 millisecond',
    lease_token = gen_random_uuid(),
    lease_no = b.lease_no + 1,
    sending_to = greatest(b.sending_to, (
        SELECT least(b.size, $6::integer) FROM peal.job AS j
        WHERE j.id = b.job_id AND j.on_doubt = 'resend' AND j.state = 'running' AND j.paused_at IS NULL
            AND b.expires_at > now()
    ))
WHERE b.slot = $1::smallint
    AND b.id = ANY (ARRAY(
        SELECT ready.id FROM peal.batch_campaign AS ready
        WHERE ready.slot = $1::smallint AND ready.vt >= $4::bigint AND ready.lease_until <= now()
            AND ready.app_id <> ALL ($5::integer[])
        ORDER BY ready.vt, ready.id
        LIMIT $3::integer
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
RETURNING
    b.id, b.vt, b.app_id, b.job_id, b.route, b.page_no, b.page_offset, b.size, b.attempt, b.expires_at, b.lease_no,
    b.settled_lease_no, b.lease_token, b.done, b.sending_to,
    (SELECT o.sending_to FROM peal.batch_campaign AS o WHERE o.slot = b.slot AND o.id = b.id) AS sent_to,
    (SELECT j.audience_at FROM peal.job AS j WHERE j.id = b.job_id) AS audience_at, now() AS now
