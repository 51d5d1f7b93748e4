// The module Postgres.
