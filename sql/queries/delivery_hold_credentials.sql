-- Holds all credentials of an account whose provider asked to wait: of a project, or of a team and key, at one endpoint.
-- Parameters: $1 id bigint of a credential of the account, $2 wait in milliseconds bigint, $3 the provider's reason text.
-- Rows: none. Reads the table, which has a few rows an app; said once a hold.
UPDATE peal.credential AS c
SET held_until = now() + $2::bigint * interval '1 millisecond', held_reason = $3::text
FROM (
    SELECT other.id
    FROM peal.credential AS other
    JOIN peal.credential AS held ON held.id = $1::bigint
    WHERE other.endpoint IS NOT DISTINCT FROM held.endpoint AND other.state <> 'removed'
        AND (
            other.project_id = held.project_id
            OR other.key_id = held.key_id AND other.team_id = held.team_id AND other.environment = held.environment
        )
        AND (other.held_until IS NULL OR other.held_until < now() + $2::bigint * interval '1 millisecond')
    ORDER BY other.id
    FOR NO KEY UPDATE OF other
) AS account
WHERE c.id = account.id
