-- Adds a credential whose key is sealed already.
-- Parameters: $1 id bigint, $2 app id integer, $3 provider text, $4 environment text, $5 key id text, $6 team id text,
-- $7 topic text, $8 project id text, $9 client e-mail text, $10 token URI text, $11 endpoint text, $12 sealed bytea.
-- Rows affected: one.
INSERT INTO peal.credential (
    id, app_id, provider, environment, key_id, team_id, topic, project_id, client_email, token_uri, endpoint, sealed
)
OVERRIDING SYSTEM VALUE
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
