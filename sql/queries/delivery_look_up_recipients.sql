-- Looks up the devices of several small batches at once: peal.look_up_recipients.
-- Parameters, arrays in step: $1 job ids uuid[], $2 page numbers integer[], $3 offsets in the page integer[], $4 sizes
-- integer[], $5 apps integer[], $6 when the jobs' audiences were frozen timestamptz[].
-- Rows, in the order of the batches and of their slices: `part` is the batch's place from 1; `is_disabled` is null where the
-- device is gone. A batch without rows: its page is gone.
SELECT r.id, r.route, r.token, r.locale, r.is_disabled, r.part
FROM peal.look_up_recipients($1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::timestamptz[])
    AS r
