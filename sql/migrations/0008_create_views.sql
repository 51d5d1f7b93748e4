-- What outsiders read: job_status, recipient_result, and the check that every count adds up.

-- What is left of a job, counted from what is there: pages not yet published, unset bits of batches, delayed batches.
-- Runs as the owner, for the readers of peal.job_status.
CREATE FUNCTION peal.job_remaining(job peal.job) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce((
        SELECT sum(p.size) FROM peal.audience_page AS p
        WHERE p.job_id = job.id AND p.audience_at = job.audience_at AND p.page_no >= job.published_pages
    ), 0) + coalesce((
        SELECT sum(b.size - bit_count(b.done)) FROM peal.batch AS b
        WHERE b.slot = job.slot AND b.lane = peal.lane_number(job.lane) AND b.job_id = job.id
    ), 0) + coalesce((
        SELECT sum(d.size - bit_count(d.done)) FROM peal.batch_delayed AS d WHERE d.job_id = job.id
    ), 0)
$$;

CREATE VIEW peal.job_status AS
SELECT
    j.id, j.app, j.kind, j.lane,
    CASE WHEN j.paused_at IS NOT NULL AND j.state IN ('scheduled', 'available', 'running') THEN 'paused'
    ELSE j.state END AS state,
    j.audience_count AS audience,
    s.accepted, s.rejected, s.skipped, s.skipped_by_reason, s.expired, s.superseded, s.cancelled, s.unknown,
    CASE WHEN j.completed_at IS NOT NULL THEN 0 ELSE peal.job_remaining(j) END AS remaining,
    s.by_reason,
    j.failure, j.collapse_id, j.idempotency_key,
    j.queued_at, j.send_at, j.expires_at, j.started_at, j.frozen_at, j.paused_at, j.cancelled_at, j.completed_at
FROM peal.job AS j
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(n) FILTER (WHERE outcome = 1), 0)::bigint AS accepted,
        coalesce(sum(n) FILTER (WHERE outcome = 2), 0)::bigint AS rejected,
        coalesce(sum(n) FILTER (WHERE outcome = 3), 0)::bigint AS skipped,
        coalesce(jsonb_object_agg(reason, n) FILTER (WHERE outcome = 3), '{}') AS skipped_by_reason,
        coalesce(sum(n) FILTER (WHERE outcome = 4), 0)::bigint AS expired,
        coalesce(sum(n) FILTER (WHERE outcome = 5), 0)::bigint AS superseded,
        coalesce(sum(n) FILTER (WHERE outcome = 6), 0)::bigint AS cancelled,
        coalesce(sum(n) FILTER (WHERE outcome = 7), 0)::bigint AS unknown,
        coalesce(
            jsonb_object_agg(peal.outcome_name(outcome) || ':' || reason, n) FILTER (WHERE reason <> ''), '{}'
        ) AS by_reason
    FROM (
        SELECT outcome, reason, sum(n) AS n
        FROM (
            SELECT outcome, reason, n FROM peal.job_stat WHERE job_id = j.id
            UNION ALL
            SELECT outcome, reason, n FROM peal.stat_delta WHERE job_id = j.id
        ) AS counted
        GROUP BY outcome, reason
    ) AS by_kind
) AS s;

CREATE VIEW peal.recipient_result AS
SELECT
    r.job_id, nullif(r.device_id, 0) AS device_id, coalesce(r.external_id, d.external_id) AS external_id,
    peal.route_channel(r.route) AS channel, peal.outcome_name(r.outcome) AS outcome, r.reason, r.http_status,
    coalesce(
        r.provider_id, CASE WHEN r.outcome = 1 AND r.route <> 3 THEN peal.apns_id(r.job_id, r.device_id)::text END
    ) AS provider_id,
    r.provider_unique_id, r.attempt, r.recorded_at
FROM peal.result AS r
LEFT JOIN peal.job AS j ON j.id = r.job_id
LEFT JOIN peal.device AS d ON d.app_id = j.app_id AND d.id = r.device_id;

-- The jobs whose count does not add up (promise 1), with every term from its own source: no row, ever.
-- A job whose results were dropped with their day is checked by its counts alone.
CREATE FUNCTION peal.check_accounting()
RETURNS TABLE (
    job_id uuid, audience bigint, accepted bigint, rejected bigint, skipped bigint, expired bigint,
    superseded bigint, cancelled bigint, unknown bigint, remaining bigint, counted_in_status bigint
)
LANGUAGE sql STABLE
AS $$
    WITH result AS (
        SELECT
            r.job_id,
            count(*) FILTER (WHERE outcome = 1) AS accepted, count(*) FILTER (WHERE outcome = 2) AS rejected,
            count(*) FILTER (WHERE outcome = 3) AS skipped, count(*) FILTER (WHERE outcome = 4) AS expired,
            count(*) FILTER (WHERE outcome = 5) AS superseded, count(*) FILTER (WHERE outcome = 6) AS cancelled,
            count(*) FILTER (WHERE outcome = 7) AS unknown, count(*) AS n
        FROM peal.result AS r GROUP BY r.job_id
    ),
    left_over AS (
        SELECT held.job_id, sum(held.n)::bigint AS n
        FROM (
            SELECT p.job_id, p.size::bigint AS n
            FROM peal.audience_page AS p
            JOIN peal.job AS j ON j.id = p.job_id AND j.audience_at = p.audience_at
            WHERE p.page_no >= j.published_pages
            UNION ALL
            SELECT b.job_id, b.size - bit_count(b.done) FROM peal.batch AS b
            UNION ALL
            SELECT d.job_id, d.size - bit_count(d.done) FROM peal.batch_delayed AS d
        ) AS held
        GROUP BY held.job_id
    ),
    stat AS (
        SELECT counted.job_id, sum(counted.n)::bigint AS n
        FROM (
            SELECT s.job_id, s.n FROM peal.job_stat AS s
            UNION ALL
            SELECT s.job_id, s.n FROM peal.stat_delta AS s
        ) AS counted
        GROUP BY counted.job_id
    ),
    kept AS (
        SELECT min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamp AT TIME ZONE 'UTC' AS since
        FROM pg_catalog.pg_inherits AS i
        JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'peal.result'::regclass
    )
    SELECT
        j.id, j.audience_count, result.accepted, result.rejected, result.skipped, result.expired, result.superseded,
        result.cancelled, result.unknown, coalesce(left_over.n, 0), coalesce(stat.n, 0)
    FROM peal.job AS j
    LEFT JOIN result ON result.job_id = j.id
    LEFT JOIN left_over ON left_over.job_id = j.id
    LEFT JOIN stat ON stat.job_id = j.id
    WHERE j.audience_count <> coalesce(stat.n, 0) + coalesce(left_over.n, 0)
        OR coalesce(stat.n, 0) <> coalesce(result.n, 0) AND (SELECT since FROM kept) <= coalesce(j.audience_at, 'infinity')
$$;
