-- A small flush in one round trip: the fence of delivery_fence_batches, the results and their counts, all in one
-- statement, so that a push costs one commit.
-- Parameters: $1 to $11 as in delivery_fence_batches; then the results, arrays in step: $12 batch ids bigint[],
-- $13 job ids uuid[], $14 device ids bigint[], $15 routes smallint[], $16 outcomes smallint[], $17 attempts smallint[],
-- $18 HTTP status smallint[] (0 for none), $19 reasons text[] ('' for none), $20 provider ids text[] ('' for none),
-- $21 provider's unique ids text[] ('' for none).
-- Rows and indexes: as in delivery_fence_batches.
WITH given AS MATERIALIZED (
    SELECT g.id, g.lease_token, g.done, g.sending_to, g.has_progress, g.fate, g.flushed_count
    FROM unnest($2::bigint[], $3::uuid[], $4::bytea[], $5::integer[], $6::smallint[], $7::smallint[], $11::integer[])
        AS g (id, lease_token, done, sending_to, has_progress, fate, flushed_count)
    WHERE NOT $10::boolean OR set_config('synchronous_commit', 'off', true) = 'off'
), kept AS (
    UPDATE peal.batch_campaign AS b SET
        done = g.done,
        sending_to = g.sending_to,
        lease_until = CASE g.fate WHEN 0 THEN now() + $8::bigint * interval '1 millisecond' ELSE '-infinity' END,
        settled_lease_no = CASE WHEN g.has_progress = 1 THEN b.lease_no ELSE b.settled_lease_no END
    FROM given AS g
    WHERE b.slot = $1::smallint AND b.id = ANY ($2::bigint[]) AND b.id = g.id AND b.lease_token = g.lease_token
        AND g.fate < 2 AND bit_count(b.done) = g.flushed_count
    RETURNING b.id
), finished AS (
    DELETE FROM peal.batch_campaign AS b
    USING given AS g
    WHERE b.slot = $1::smallint AND b.id = ANY ($2::bigint[]) AND b.id = g.id AND b.lease_token = g.lease_token
        AND g.fate = 2 AND bit_count(b.done) = g.flushed_count
    RETURNING b.id
), ours AS MATERIALIZED (
    SELECT k.id FROM kept AS k UNION ALL SELECT f.id FROM finished AS f
), settled AS MATERIALIZED (
    SELECT
        s.job_id, s.device_id, s.route, s.outcome, s.attempt, s.http_status, s.reason, s.provider_id,
        s.provider_unique_id
    FROM unnest(
        $12::bigint[], $13::uuid[], $14::bigint[], $15::smallint[], $16::smallint[], $17::smallint[], $18::smallint[],
        $19::text[], $20::text[], $21::text[]
    ) AS s (
        batch_id, job_id, device_id, route, outcome, attempt, http_status, reason, provider_id, provider_unique_id
    )
    WHERE s.batch_id IN (SELECT o.id FROM ours AS o)
), recorded AS (
    INSERT INTO peal.result (
        job_id, device_id, route, outcome, attempt, http_status, reason, provider_id, provider_unique_id
    )
    SELECT
        s.job_id, s.device_id, s.route, s.outcome, s.attempt, nullif(s.http_status, 0), nullif(s.reason, ''),
        nullif(s.provider_id, ''), nullif(s.provider_unique_id, '')
    FROM settled AS s
), counted AS (
    INSERT INTO peal.stat_delta (job_id, outcome, reason, n)
    SELECT s.job_id, s.outcome, s.reason, count(*) FROM settled AS s GROUP BY s.job_id, s.outcome, s.reason
)
SELECT o.id AS batch_id, NULL::uuid AS job_id, NULL::text AS state, NULL::boolean AS is_paused FROM ours AS o
UNION ALL
SELECT NULL, j.id, j.state, j.paused_at IS NOT NULL FROM peal.job AS j WHERE j.id = ANY ($9::uuid[])
