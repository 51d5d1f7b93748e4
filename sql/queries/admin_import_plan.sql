-- For the rest of the transaction: look rows up by index, chunk after chunk, whatever the statistics of a table that
-- is just being filled say. For the same reason the statements name the app by a sub-select, see peal.resolve_named.
-- Parameters: none. Rows: one, of no use.
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)
