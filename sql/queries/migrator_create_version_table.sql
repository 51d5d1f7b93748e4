-- Makes the table of the migrations that this database has had.
CREATE TABLE IF NOT EXISTS peal.schema_version (
    number integer PRIMARY KEY CHECK (number > 0),
    name text NOT NULL,
    is_breaking boolean NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
