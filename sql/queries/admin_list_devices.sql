-- Lists devices of an app in the order of their ids, a page at a time.
-- Parameters: $1 app id integer, $2 ids after bigint, $3 limit integer, $4 device id bigint or null, $5 external id text
-- or null, $6 installation id text or null, $7 token text or null, $8 channel text or null, $9 disabled boolean or null.
-- Rows: id bigint, channel text, environment text, token text, voip_token text, installation_id text,
-- external_id text, tags jsonb, locale text, timezone text, app_version text, os_version text, model text,
-- registered_at timestamptz, disabled_at timestamptz, disabled_reason text, created_at timestamptz.
-- Index: device_pkey; device_external_id, device_installation or device_token where one is asked for.
SELECT
    d.id, d.channel, d.environment, d.token, d.voip_token, d.installation_id, d.external_id, d.tags, d.locale,
    d.timezone, d.app_version, d.os_version, d.model, d.registered_at, d.disabled_at, d.disabled_reason, d.created_at
FROM peal.device AS d
WHERE d.app_id = $1 AND d.id > $2
    AND ($4::bigint IS NULL OR d.id = $4)
    AND ($5::text IS NULL OR d.external_id = $5)
    AND ($6::text IS NULL OR d.installation_id = $6)
    AND ($7::text IS NULL OR (
        d.channel IN ('ios', 'android') AND md5(d.token)::uuid IN (md5($7)::uuid, md5(lower($7))::uuid)
        AND d.token IN ($7, lower($7))
    ))
    AND ($8::text IS NULL OR d.channel = $8)
    AND ($9::boolean IS NULL OR (d.disabled_at IS NOT NULL) = $9)
ORDER BY d.id
LIMIT $3
