-- Writes a flush: peal.settle_batches_campaign and its twins.
-- Parameters, arrays in step: $1 slot smallint, $2 batch ids bigint[], $3 their tags bigint[], $4 lease tokens uuid[],
-- $5 bitmaps bytea[], $6 sending_to integer[], $7 whether something was settled smallint[] (0, 1), $8 fate smallint[]
-- (0 keep, 1 release, 2 finished), $9 lease in milliseconds bigint, $10 job ids uuid[], $11 whether the commit may be lost
-- boolean, $12 how many bits the row must have set integer[].
-- Then the results, arrays in step: $13 their parts integer[] (places in $2, from 1), $14 job ids uuid[], $15 device ids
-- bigint[], $16 routes smallint[], $17 outcomes smallint[], $18 attempts smallint[], $19 HTTP status smallint[] (0 for
-- none), $20 reasons text[] ('' for none), $21 provider ids text[] ('' for none), $22 provider's unique ids text[] (''
-- for none).
-- Rows: `part` of each batch that is still ours (`job_id` null), and each job with `state` and `is_paused`
-- (`part` null).
SELECT s.part, s.job_id, s.state, s.is_paused
FROM peal.settle_batches_campaign(
    $1::smallint, $2::bigint[], $3::bigint[], $4::uuid[], $5::bytea[], $6::integer[], $7::smallint[], $8::smallint[],
    $9::bigint * interval '1 millisecond', $10::uuid[], $11::boolean, $12::integer[],
    $13::integer[], $14::uuid[], $15::bigint[], $16::smallint[], $17::smallint[], $18::smallint[], $19::smallint[],
    $20::text[], $21::text[], $22::text[]
) AS s
