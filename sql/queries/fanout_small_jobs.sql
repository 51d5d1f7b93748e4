-- Takes jobs of an urgent lane that name few recipients all the way to ready batches, many in one transaction.
-- Parameters: $1 lane text, $2 limit integer, $3 look only at jobs of the last so many milliseconds bigint (null: all).
-- Rows: one. jobs integer: how many were taken, batches integer: how many batches they became.
-- Index: job_fanout; primary key of device and device_external_id.
SELECT f.jobs, f.batches
FROM peal.fan_out_small($1::text, $2::integer, now() - $3::bigint * interval '1 millisecond') AS f
