-- Adds the rows that led to no device, in the order of the tokens' index: two imports meet the same keys in the same
-- order, and neighbours share an index page.
-- Parameters: $1 app id integer. Rows affected: devices added.
INSERT INTO peal.device (
    app_id, channel, environment, token, voip_token, installation_id, external_id, tags, locale, timezone, app_version,
    os_version, model, voip_registered_at
)
SELECT
    $1, r.channel, coalesce(r.environment, 'production'), r.token, r.voip_token, r.installation_id, r.external_id,
    coalesce(r.tags, '{}'), r.locale, r.timezone, r.app_version, r.os_version, r.model,
    CASE WHEN r.voip_token IS NOT NULL THEN now() END
FROM pg_temp.device_import AS r
WHERE r.device_id IS NULL
ORDER BY md5(r.token)::uuid
