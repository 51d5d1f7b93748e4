-- Takes no statistics of the ids in audience pages: of arrays with thousands of members, none of which is ever searched for,
-- they cost autovacuum 1.6 s of CPU after three campaigns of 1,000,000, and more with each.

-- Does not reach the partitions that are made later: a partition does not inherit it.
ALTER TABLE peal.audience_page ALTER COLUMN ids SET STATISTICS 0;

-- Makes the day partitions of the append-only tables for today and the given number of days ahead.
-- Two at once are safe: one waits, and finds them made. It acts as the owner of the tables, whichever worker calls it.
CREATE OR REPLACE FUNCTION peal.make_partitions(days_ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parent text;
    day date;
    child text;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('peal.make_partitions'));
    FOREACH parent IN ARRAY ARRAY['result', 'audience_page'] LOOP
        FOR day IN
            SELECT ((now() AT TIME ZONE 'UTC')::date + n)::date FROM generate_series(-1, days_ahead) AS n
        LOOP
            child := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
            CONTINUE WHEN to_regclass(format('peal.%I', child)) IS NOT NULL;
            EXECUTE format(
                'CREATE TABLE peal.%I PARTITION OF peal.%I FOR VALUES FROM (%L) TO (%L)',
                child, parent, day::text || ' 00:00:00+00', (day + 1)::text || ' 00:00:00+00'
            );
            CASE parent
            WHEN 'result' THEN
                -- Job ids grow with time, so a summary of each block range finds a job's rows, or those of a moment,
                -- at next to no cost.
                EXECUTE format(
                    'CREATE INDEX %I ON peal.%I USING brin (job_id, recorded_at) WITH (pages_per_range = 32, autosummarize = on)',
                    child || '_job', child
                );
            WHEN 'audience_page' THEN
                EXECUTE format('ALTER TABLE peal.%I ALTER COLUMN ids SET STATISTICS 0', child);
            END CASE;
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
