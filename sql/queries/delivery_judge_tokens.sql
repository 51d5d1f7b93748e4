-- Adds what was seen of a credential's tokens to what all processes saw, and says what of it may be believed.
-- Parameters: $1 credential id bigint, $2 its updated_at when it was used timestamptz, $3 pushes accepted since the last
-- report integer, $4 suspected device ids bigint[], $5 how many more tokens were called dead integer.
-- Rows: one. is_proven boolean, is_high boolean, has_turned boolean, suspected integer. See peal.judge_tokens. Index: primary key of token_verdict.
SELECT j.is_proven, j.is_high, j.has_turned, j.suspected
FROM peal.judge_tokens($1::bigint, $2::timestamptz, $3::integer, $4::bigint[], $5::integer) AS j
