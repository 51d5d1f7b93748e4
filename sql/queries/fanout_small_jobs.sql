-- Takes jobs of an urgent lane that name few recipients all the way to ready batches, many in one transaction, of each
-- waiting app its share.
-- Parameters: $1 lane text, $2 limit integer, $3 look only at jobs that became due in the last so many milliseconds
-- bigint (null: all), $4 the app to begin after integer.
-- Rows: one. jobs integer: how many were taken, batches integer: how many batches they became, has_more boolean,
-- last_app integer: the app that the next turn is to begin after.
-- Index: job_small, job_small_young; primary key of device and device_external_id.
SELECT f.jobs, f.batches, f.has_more, f.last_app
FROM peal.fan_out_small($1::text, $2::integer, now() - $3::bigint * interval '1 millisecond', $4::integer) AS f
