-- Refreshes the devices that rows led to, as peal.register_device does. A column that the file lacks keeps its value.
-- Parameters: $1 app id integer, $2 columns of the file text[], $3 names of its tag columns text[].
-- Rows affected: devices updated. Index: device_pkey, once for each row of the chunk: a plain join may read the chunk once
-- for each device of the app. The devices are locked, so they stay where they are.
UPDATE peal.device AS d SET
    channel = r.channel,
    environment = coalesce(r.environment, d.environment),
    token = r.token,
    voip_token = CASE WHEN 'voip_token' = ANY ($2::text[]) OR r.channel <> 'ios' THEN r.voip_token
        ELSE d.voip_token END,
    installation_id = CASE WHEN 'installation_id' = ANY ($2) THEN r.installation_id ELSE d.installation_id END,
    external_id = CASE WHEN 'external_id' = ANY ($2) THEN r.external_id ELSE d.external_id END,
    tags = CASE WHEN 'tags' = ANY ($2) THEN coalesce(r.tags, '{}')
        ELSE (d.tags - $3::text[]) || coalesce(r.tags, '{}') END,
    locale = CASE WHEN 'locale' = ANY ($2) THEN r.locale ELSE d.locale END,
    timezone = CASE WHEN 'timezone' = ANY ($2) THEN r.timezone ELSE d.timezone END,
    app_version = CASE WHEN 'app_version' = ANY ($2) THEN r.app_version ELSE d.app_version END,
    os_version = CASE WHEN 'os_version' = ANY ($2) THEN r.os_version ELSE d.os_version END,
    model = CASE WHEN 'model' = ANY ($2) THEN r.model ELSE d.model END,
    registered_at = now(),
    voip_registered_at = CASE WHEN r.voip_token IS NOT NULL THEN now()
        WHEN r.channel = 'ios' THEN d.voip_registered_at END,
    disabled_at = NULL,
    disabled_reason = NULL,
    updated_at = now()
FROM pg_temp.device_import AS r
CROSS JOIN LATERAL (
    SELECT e.ctid AS place FROM peal.device AS e WHERE e.app_id = (SELECT $1::integer) AND e.id = r.device_id
    OFFSET 0
) AS found
WHERE d.ctid = found.place
