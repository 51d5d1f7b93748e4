-- Adds what was seen of a credential's tokens to what all processes saw, and says what of it may be believed.
-- Parameters: $1 credential id bigint, $2 pushes accepted since the last report integer, $3 suspected device ids
-- bigint[], $4 how many more tokens were called dead integer. Rows: one. is_proven boolean, is_high boolean,
-- has_turned boolean, suspected integer. See peal.judge_tokens. Index: primary key of token_verdict.
SELECT j.is_proven, j.is_high, j.has_turned, j.suspected
FROM peal.judge_tokens($1::bigint, $2::integer, $3::bigint[], $4::integer) AS j
