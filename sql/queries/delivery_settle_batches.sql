-- Writes a flush: peal.settle_batches_campaign and its twins.
-- Parameters, arrays in step: $1 slot smallint, $2 batch ids bigint[], $3 lease tokens uuid[], $4 bitmaps bytea[],
-- $5 sending_to integer[], $6 whether something was settled smallint[] (0, 1), $7 fate smallint[] (0 keep, 1 release,
-- 2 finished), $8 lease in milliseconds bigint, $9 job ids uuid[], $10 whether the commit may be lost boolean,
-- $11 how many bits the row must have set integer[].
-- Then the results, arrays in step: $12 their parts integer[] (places in $2, from 1), $13 job ids uuid[], $14 device ids bigint[], $15 routes
-- smallint[], $16 outcomes smallint[], $17 attempts smallint[], $18 HTTP status smallint[] (0 for none), $19 reasons
-- text[] ('' for none), $20 provider ids text[] ('' for none), $21 provider's unique ids text[] ('' for none).
-- Rows: `part` of each batch that is still ours (`job_id` null), and each job with `state` and `is_paused`
-- (`part` null).
SELECT s.part, s.job_id, s.state, s.is_paused
FROM peal.settle_batches_campaign(
    $1::smallint, $2::bigint[], $3::uuid[], $4::bytea[], $5::integer[], $6::smallint[], $7::smallint[],
    $8::bigint * interval '1 millisecond', $9::uuid[], $10::boolean, $11::integer[],
    $12::integer[], $13::uuid[], $14::bigint[], $15::smallint[], $16::smallint[], $17::smallint[], $18::smallint[],
    $19::text[], $20::text[], $21::text[]
) AS s
