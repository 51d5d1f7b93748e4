"""Bare SQL that moves the rows of a campaign: the least that PostgreSQL can do for it."""

import os
import time


def bare_sql(context, size):
    """CPU µs of one backend per recipient to freeze an audience in pages, to read tokens, to COPY results."""
    return context.once(f"bare {size}", lambda: _measure(context, size))


def _measure(context, size):
    campaigns = context.campaigns
    campaigns.app(size, context.quick_simulator)
    app = f"(SELECT id FROM peal.app WHERE slug = 'app-{size}')"
    file = os.path.join(context.cluster.directory, "bare.copy")
    found = {}
    with context.cluster.session(campaigns.database) as session:
        session.rows("DROP TABLE IF EXISTS bare_result, bare_page")
        session.rows("CREATE TABLE bare_page (page_no bigint, ids bigint[])")
        session.rows("ALTER TABLE bare_page ALTER COLUMN ids SET STORAGE EXTERNAL")
        session.rows("CREATE TABLE bare_result (LIKE peal.result)")

        def timed(name, statement):
            cpu, start = session.cpu(), time.monotonic()
            session.rows(statement)
            found[f"{name}_us"] = (session.cpu() - cpu) / size * 1e6
            found[f"{name}_seconds"] = time.monotonic() - start

        # As the freeze does, page by page: never one plan over all.
        session.rows("SET max_parallel_workers_per_gather = 0")
        session.rows("SET jit = off")
        timed("freeze", "DO $$ DECLARE page bigint[]; last bigint := 0; BEGIN LOOP page := ARRAY(SELECT id FROM peal.device "
              f"WHERE app_id = {app} AND id > last AND token IS NOT NULL AND disabled_at IS NULL ORDER BY id LIMIT 5000); "
              "EXIT WHEN page = '{}'; INSERT INTO bare_page VALUES (0, page); last := page[cardinality(page)]; END LOOP; "
              "END $$")
        timed("read", f"COPY (SELECT id, route, token, locale, disabled_at IS NOT NULL FROM peal.device WHERE app_id = "
              f"{app} ORDER BY id) TO '/dev/null' (FORMAT binary)")
        session.rows(
            "COPY (SELECT gen_random_uuid(), n::bigint, 1::smallint, 1::smallint, 1::smallint, 200::smallint, NULL::text, "
            "NULL::text, NULL::text, NULL::text, now() FROM generate_series(1, "
            f"{size}) AS n) TO '{file}' (FORMAT binary)"
        )
        timed("copy", f"COPY bare_result FROM '{file}' (FORMAT binary)")
        session.rows("DROP TABLE bare_result, bare_page")
    os.remove(file)
    return found
