-- Lists jobs, the newest first, a page at a time.
-- Parameters: $1 slug text or null, $2 state text or null, $3 ids before uuid or null, $4 limit integer.
-- Rows: id uuid, app text, lane text, state text, audience bigint, accepted bigint, rejected bigint, skipped bigint,
-- expired bigint, superseded bigint, cancelled bigint, unknown bigint, remaining bigint, queued_at timestamptz,
-- send_at timestamptz, completed_at timestamptz. Index: job_pkey.
SELECT
    s.id, s.app, s.lane, s.state, s.audience, s.accepted, s.rejected, s.skipped, s.expired, s.superseded, s.cancelled,
    s.unknown, s.remaining::bigint AS remaining, s.queued_at, s.send_at, s.completed_at
FROM peal.job_status AS s
WHERE ($1::text IS NULL OR s.app = $1) AND ($2::text IS NULL OR s.state = $2) AND ($3::uuid IS NULL OR s.id < $3)
ORDER BY s.id DESC
LIMIT $4
