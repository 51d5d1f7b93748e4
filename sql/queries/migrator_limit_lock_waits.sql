-- Within this transaction, gives up on a table lock after 20 s rather than hold up all that queue behind it.
-- Rows: one, the setting as text.
SELECT set_config('lock_timeout', '20s', true)
