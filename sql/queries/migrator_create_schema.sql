-- Makes the schema that everything lives in.
CREATE SCHEMA IF NOT EXISTS peal
