-- Copies the rows of a chunk in. Columns as in admin_import_stage, without the two ids at its end.
-- Parameters: none. Rows: none.
COPY pg_temp.device_import (
    line, channel, environment, token, voip_token, installation_id, external_id, tags, locale, timezone, app_version,
    os_version, model
) FROM STDIN (FORMAT binary)
