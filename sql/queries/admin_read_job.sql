-- The whole status of one job.
-- Parameters: $1 job id uuid. Rows: none or one. As peal.job_status, counts as bigint. Index: job_pkey.
SELECT
    s.id, s.app, s.kind, s.lane, s.state, s.audience, s.accepted, s.rejected, s.skipped, s.expired, s.superseded,
    s.cancelled, s.unknown, s.remaining::bigint AS remaining, s.by_reason, s.failure, s.collapse_id, s.queued_at,
    s.send_at, s.expires_at, s.started_at, s.frozen_at, s.paused_at, s.cancelled_at, s.completed_at
FROM peal.job_status AS s
WHERE s.id = $1
