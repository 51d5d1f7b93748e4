-- What Delivery asks for each push, as functions: a statement of a function is planned once a connection. Sent as text it is
-- planned at each call, because a pooler that changes the server's connection between transactions bears no prepared
-- statement; of a single push's claim, look-up and flush that was three quarters of the time.
--
-- A plan that is kept must not rest on the statistics: those of a queue that was empty take any index of it for as good as
-- another, and the plan stays when the queue has grown. So a row is named by all columns of both indexes (slot, vt, id),
-- and the order by which batches are claimed is left to no sort.

DO $do$
DECLARE
    lane text;
BEGIN
    -- The campaign's function stands for each lane's: a plan through the parent would open all partitions.
    FOREACH lane IN ARRAY ARRAY['call', 'transactional', 'campaign'] LOOP
        EXECUTE replace($sql$

-- Claims ready batches of a slot in their fair order. An expired lease is ready: the claim is the reaper.
-- floor: the lowest vt to look at; enough: apps of which the caller has enough in hand; first_window: how many recipients of
-- a batch may be submitted at once, where the job goes on and may send again in doubt.
-- sending_to: what may be submitted now; sent_to: what a worker before may have submitted, from the row as it was;
-- audience_at: in which day its page is, NULL where the job is gone; server_time: now. In no order.
-- The commit need not wait for the disk: a claim that is lost with the server leaves the batch as it was.
CREATE FUNCTION peal.claim_batches_campaign(
    of_slot smallint, lease interval, most integer, floor bigint, enough integer[], first_window integer
)
RETURNS TABLE (
    id bigint, vt bigint, app_id integer, job_id uuid, route smallint, page_no integer, page_offset integer, size integer,
    attempt smallint, expires_at timestamptz, lease_no integer, settled_lease_no integer, lease_token uuid, done bytea,
    sending_to integer, sent_to integer, audience_at timestamptz, server_time timestamptz
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    ready record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR ready IN
        SELECT b.vt, b.id, b.sending_to FROM peal.batch_campaign AS b
        WHERE b.slot = of_slot AND b.vt >= floor AND b.lease_until <= now() AND b.app_id <> ALL (enough)
        ORDER BY b.vt, b.id
        LIMIT most
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        RETURN QUERY UPDATE peal.batch_campaign AS b SET
            lease_until = now() + lease,
            lease_token = gen_random_uuid(),
            lease_no = b.lease_no + 1,
            sending_to = greatest(b.sending_to, (
                SELECT least(b.size, first_window) FROM peal.job AS j
                WHERE j.id = b.job_id AND j.on_doubt = 'resend' AND j.state = 'running' AND j.paused_at IS NULL
                    AND b.expires_at > now()
            ))
        WHERE b.slot = of_slot AND b.vt = ready.vt AND b.id = ready.id
        RETURNING
            b.id, b.vt, b.app_id, b.job_id, b.route, b.page_no, b.page_offset, b.size, b.attempt, b.expires_at,
            b.lease_no, b.settled_lease_no, b.lease_token, b.done, b.sending_to, ready.sending_to,
            (SELECT j.audience_at FROM peal.job AS j WHERE j.id = b.job_id), now();
    END LOOP;
END
$$;

-- Writes a flush: each batch's bitmap, and its lease renewed, released or ended, where the lease is still ours; and, where
-- they are few, the results and their counts in the same statement, so that a push costs one round trip and one commit.
-- Many results go by COPY in the same transaction before, and their arrays are empty here.
-- What the lease was lost of is not among the rows, and nothing of it may be written: not even where a newer lease of the
-- same batch is written by the same flush, so each result names the part of the flush that it belongs to.
-- Two flushes never wait for each other: a row belongs to the one lease whose token it carries.
-- Arrays in step, a part of the flush each: batches and vts (their place in the order), tokens (their leases), bitmaps, sending (their sending_to),
-- progressed (whether something was settled: 0, 1), fates (0 keep, 1 release, 2 finished) and flushed: how many bits the
-- row must have set. In a crash the server may forget flushes whose commit could be lost, their results and their bits,
-- and what is left of the batch must not end on the word of a worker that lived on.
-- may_be_lost: whether the commit need not wait for the disk; jobs: those whose state is asked for.
-- Then the results, arrays in step: the part of each, from 1, and what a row of peal.result holds (0 and '' for none).
-- Rows: `part` of each batch that is still ours (`job_id` null), and each job with `state` and `is_paused`
-- (`part` null).
CREATE FUNCTION peal.settle_batches_campaign(
    of_slot smallint, batches bigint[], vts bigint[], tokens uuid[], bitmaps bytea[], sending integer[], progressed smallint[],
    fates smallint[], lease interval, jobs uuid[], may_be_lost boolean, flushed integer[],
    result_parts integer[], result_jobs uuid[], devices bigint[], routes smallint[], outcomes smallint[],
    attempts smallint[], http_statuses smallint[], reasons text[], provider_ids text[], provider_unique_ids text[]
)
RETURNS TABLE (part bigint, job_id uuid, state text, is_paused boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    ours bigint[] := '{}';
BEGIN
    IF may_be_lost THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    FOR i IN 1 .. cardinality(batches) LOOP
        IF fates[i] = 2 THEN
            DELETE FROM peal.batch_campaign AS b
            WHERE b.slot = of_slot AND b.vt = vts[i] AND b.id = batches[i] AND b.lease_token = tokens[i]
                AND bit_count(b.done) = flushed[i];
        ELSE
            UPDATE peal.batch_campaign AS b SET
                done = bitmaps[i],
                sending_to = sending[i],
                lease_until = CASE fates[i] WHEN 0 THEN now() + lease ELSE '-infinity' END,
                settled_lease_no = CASE WHEN progressed[i] = 1 THEN b.lease_no ELSE b.settled_lease_no END
            WHERE b.slot = of_slot AND b.vt = vts[i] AND b.id = batches[i] AND b.lease_token = tokens[i]
                AND bit_count(b.done) = flushed[i];
        END IF;
        IF FOUND THEN
            ours := ours || i::bigint;
        END IF;
    END LOOP;
    RETURN QUERY WITH settled AS MATERIALIZED (
        SELECT
            s.job_id, s.device_id, s.route, s.outcome, s.attempt, s.http_status, s.reason, s.provider_id,
            s.provider_unique_id
        FROM unnest(
            result_parts, result_jobs, devices, routes, outcomes, attempts, http_statuses, reasons, provider_ids,
            provider_unique_ids
        ) AS s (
            part, job_id, device_id, route, outcome, attempt, http_status, reason, provider_id, provider_unique_id
        )
        WHERE s.part = ANY (ours)
    ), recorded AS (
        INSERT INTO peal.result (
            job_id, device_id, route, outcome, attempt, http_status, reason, provider_id, provider_unique_id
        )
        SELECT
            s.job_id, s.device_id, s.route, s.outcome, s.attempt, nullif(s.http_status, 0), nullif(s.reason, ''),
            nullif(s.provider_id, ''), nullif(s.provider_unique_id, '')
        FROM settled AS s
    ), counted AS (
        INSERT INTO peal.stat_delta (job_id, outcome, reason, n)
        SELECT s.job_id, s.outcome, s.reason, count(*) FROM settled AS s GROUP BY s.job_id, s.outcome, s.reason
    )
    SELECT o.part, NULL::uuid, NULL::text, NULL::boolean FROM unnest(ours) AS o (part)
    UNION ALL
    SELECT NULL, j.id, j.state, j.paused_at IS NOT NULL FROM peal.job AS j WHERE j.id = ANY (jobs);
END
$$;
        $sql$, '_campaign', '_' || lane);
    END LOOP;
END
$do$;

-- What delivery needs to know of the jobs whose batches it took in hand: one row a job that exists, in no order.
-- Index: primary keys.
CREATE FUNCTION peal.read_sent_jobs(jobs uuid[])
RETURNS TABLE (
    id uuid, app_id integer, app_slug text, on_credential_failure text, state text, is_paused boolean, kind text,
    content jsonb, collapse_id text, ttl integer, expires_at timestamptz, on_doubt text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT
        j.id, j.app_id, a.slug, a.on_credential_failure, j.state, j.paused_at IS NOT NULL, j.kind,
        j.content, j.collapse_id, j.ttl::integer, j.expires_at, j.on_doubt
    FROM peal.job AS j
    JOIN peal.app AS a ON a.id = j.app_id
    WHERE j.id = ANY (jobs);
END
$$;

-- Looks up the devices of several small batches at once: the slice of each one's page, and what these devices are now.
-- A large batch has a statement of its own, delivery_resolve_recipients.
-- Arrays in step, a batch each: jobs, pages and offsets (where the slice begins), sizes, apps, and audience_ats, when the
-- jobs' audiences were frozen.
-- Rows, in the order of the batches and of their slices: part (the batch's place, from 1) and the id, with what is known of
-- the device: is_disabled is NULL where it is gone, token where it has none. No row: the page is gone.
-- Index: primary keys of audience_page and device. Of the pages' days only those between the first and the last are opened.
CREATE FUNCTION peal.look_up_recipients(
    jobs uuid[], pages integer[], offsets integer[], sizes integer[], apps integer[], audience_ats timestamptz[]
)
RETURNS TABLE (id bigint, route smallint, token text, locale text, is_disabled boolean, part bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    first_at timestamptz := (SELECT min(a.at) FROM unnest(audience_ats) AS a (at));
    last_at timestamptz := (SELECT max(a.at) FROM unnest(audience_ats) AS a (at));
BEGIN
    RETURN QUERY SELECT i.id, d.route, d.token, d.locale, CASE WHEN d.id IS NOT NULL THEN d.disabled_at IS NOT NULL END, g.part
    FROM unnest(jobs, pages, offsets, sizes, apps, audience_ats)
        WITH ORDINALITY AS g (job_id, page_no, page_offset, size, app_id, audience_at, part)
    CROSS JOIN LATERAL (
        SELECT p.ids[g.page_offset + 1 : g.page_offset + g.size] AS ids
        FROM peal.audience_page AS p
        WHERE p.job_id = g.job_id AND p.page_no = g.page_no AND p.audience_at = g.audience_at
            AND p.audience_at BETWEEN first_at AND last_at
        LIMIT 1
    ) AS s
    CROSS JOIN LATERAL unnest(s.ids) WITH ORDINALITY AS i (id, place)
    LEFT JOIN LATERAL (
        SELECT d.id, d.route, d.token, d.locale, d.disabled_at FROM peal.device AS d
        WHERE d.app_id = g.app_id AND d.id = i.id
        LIMIT 1
    ) AS d ON true
    ORDER BY g.part, i.place;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA peal FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA peal TO peal_worker;
