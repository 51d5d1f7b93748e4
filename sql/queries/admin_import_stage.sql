-- Makes the table that one chunk of an import file is copied into; it goes with the transaction, so it also works
-- behind a pooler. Columns in the order in which the rows are copied.
-- Parameters: none. Rows: none.
CREATE TEMPORARY TABLE device_import (
    line integer NOT NULL,
    channel text NOT NULL,
    environment text,
    token text NOT NULL,
    voip_token text,
    installation_id text,
    external_id text,
    tags jsonb,
    locale text,
    timezone text,
    app_version text,
    os_version text,
    model text,
    -- The device that the row's token or installation leads to, and the one of the installation alone.
    device_id bigint,
    installed_id bigint
) ON COMMIT DROP
