-- For the rest of the transaction: look rows up by index, chunk after chunk, whatever the statistics of a table that
-- is just being filled say. They may say that it is empty, when they were taken while the first chunk was on its way; so each
-- statement takes the rows of the chunk one by one (LATERAL, and OFFSET 0 or a lock to keep it so).
-- For the same reason the statements name the app by a sub-select, see peal.resolve_named.
-- Parameters: none. Rows: one, of no use.
SELECT set_config(name, 'off', true) FROM unnest(ARRAY['enable_hashjoin', 'enable_mergejoin', 'enable_seqscan', 'jit']) AS name
