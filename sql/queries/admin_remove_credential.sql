-- Removes a credential of an app, and with it the sealed key and the bearer made from it. The row stays for the record.
-- Parameters: $1 app id integer, $2 credential id bigint. Rows affected: one, or none when the app has no such one.
WITH bearer AS (
    DELETE FROM peal.provider_token AS t USING peal.credential AS c
    WHERE t.credential_id = c.id AND c.id = $2 AND c.app_id = $1
)
UPDATE peal.credential SET state = 'removed', state_reason = 'removed by hand', sealed = '', updated_at = now()
WHERE id = $2 AND app_id = $1 AND state <> 'removed'
