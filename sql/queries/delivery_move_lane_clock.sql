-- Moves a lane's clock on to the newest tag that was claimed, at most five times a second, by whoever gets the row at
-- once. Nobody waits.
-- Parameters: $1 slot smallint, $2 lane smallint, $3 newest tag bigint.
-- Rows: one. vt bigint: what the clock stands at. Index: primary key.
WITH free AS MATERIALIZED (
    SELECT c.slot, c.lane FROM peal.lane_clock AS c
    WHERE c.slot = $1::smallint AND c.lane = $2::smallint AND c.vt < $3::bigint
        AND c.updated_at <= now() - interval '200 milliseconds'
    FOR NO KEY UPDATE SKIP LOCKED
), moved AS (
    UPDATE peal.lane_clock AS c SET vt = greatest(c.vt, $3::bigint), updated_at = now()
    FROM free AS f
    WHERE c.slot = f.slot AND c.lane = f.lane
    RETURNING c.vt
)
SELECT m.vt FROM moved AS m
UNION ALL
SELECT c.vt FROM peal.lane_clock AS c
WHERE c.slot = $1::smallint AND c.lane = $2::smallint AND NOT EXISTS (SELECT FROM moved)
