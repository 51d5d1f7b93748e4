"""Claim time when everything is in its way: many results, many delayed rows, many apps, an old snapshot."""

import collections
import re
import time

from ..campaign import Campaigns, median
from ..report import Bound, Figure

# One round a second: 40 batches, a campaign at 200,000 recipients a second.
CLAIMS_A_ROUND = 20
FLOOR_LAG = 1.0
SWEEP_INTERVAL = 10.0


def measure(context):
    results = context.pick(10_000_000, 1_000_000)
    delayed = context.pick(2_000_000, 200_000)
    apps = 2_000
    fresh = Queue(context, "claim_fresh", apps=1, batches_each=64)
    adverse = Queue(context, "claim_adverse", apps=apps, batches_each=4)
    adverse.add_results(results)
    adverse.add_delayed(delayed)
    held = context.snapshot_seconds
    with fresh, adverse, context.cluster.session("claim_adverse") as snapshot:
        snapshot.rows("BEGIN ISOLATION LEVEL REPEATABLE READ")
        snapshot.rows("SELECT count(*) FROM peal.app")
        context.progress.step(f"a snapshot held for {held} s while batches come and go")
        rounds = []
        deadline = time.monotonic() + held
        while time.monotonic() < deadline:
            begun = time.monotonic()
            rounds.append({"fresh_us": fresh.round(), "adverse_us": adverse.round()})
            context.progress.update(f"a snapshot held, {max(0, deadline - begun):.0f} s to go")
            time.sleep(max(0, begun + 1 - time.monotonic()))
        dead = int(snapshot.value("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'batch_campaign'"))
        snapshot.rows("COMMIT")
    # What was held longest counts.
    last = rounds[len(rounds) // 2:]
    value, yardstick = (median([one[name] for one in last]) for name in ("adverse_us", "fresh_us"))
    quarter = max(1, len(rounds) // 4)
    growth = median([one["adverse_us"] for one in rounds[-quarter:]]) / median(
        [one["adverse_us"] for one in rounds[quarter:2 * quarter]])
    sweep = {name: queue.sweep_us for name, queue in (("fresh", fresh), ("adverse", adverse))}
    context.cluster.sql("postgres", "DROP DATABASE claim_fresh WITH (FORCE)")
    context.cluster.sql("postgres", "DROP DATABASE claim_adverse WITH (FORCE)")
    return [Figure(
        "claim time, adverse", value, "µs", yardstick, "µs fresh", Bound(1.15),
        note=f"mean of {CLAIMS_A_ROUND} claims of 2 batches, planning included, in the server; median of the second half of "
             f"the rounds, one a second; its last quarter {growth:.2f} × its second. The snapshot was held for {held} s, and "
             f"about {dead:,} dead rows stood beside. The claim without a floor (one in {SWEEP_INTERVAL:.0f} s): "
             f"{_milliseconds(sweep['adverse'])} against {_milliseconds(sweep['fresh'])} ms",
        settings={"result_rows": results, "delayed_rows": delayed, "apps_waiting": apps, "snapshot_held_seconds": held,
                  "claims_per_second": CLAIMS_A_ROUND,
                  "floor_lag_seconds": FLOOR_LAG, "sweep_interval_seconds": SWEEP_INTERVAL},
        runs=rounds + [{"sweeps_us": sweep}],
    )]


def _milliseconds(values):
    return f"{median(values) / 1000:.2f}" if values else "–"


class Queue:
    """A database of its own with ready batches, and the worker's own claim statement on it."""

    def __init__(self, context, database, apps, batches_each):
        self.context = context
        self.database = database
        self.apps = apps
        Campaigns(context, database)
        with open(f"{context.root}/sql/queries/delivery_claim_batches.sql") as file:
            text = re.sub(r"--[^\n]*\n", "", file.read())
        for number, value in (("$1", "0"), ("$2", "30000"), ("$3", "2"), ("$5", "'{}'"), ("$6", "1000")):
            text = text.replace(number, value)
        self.text = " ".join(text.split())
        self.floors = collections.deque()
        self.swept_at = None
        self.sweep_us = []
        self.tag = 0
        self.session = context.cluster.session(database)
        self.session.rows(
            f"INSERT INTO peal.app (slug) SELECT 'app-' || n FROM generate_series(1, {apps}) AS n"
        )
        self.session.rows("SET pg_stat_statements.track_planning = on")
        self.publish(apps * batches_each)
        self.session.rows("VACUUM (ANALYZE) peal.batch_campaign")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.close()

    def add_results(self, count):
        """Results of today."""
        self.context.progress.step(f"{count:,} result rows")
        for first in range(1, count + 1, 1_000_000):
            last = min(count, first + 999_999)
            self.session.rows(
                "INSERT INTO peal.result (job_id, device_id, route, outcome, attempt, http_status, recorded_at) "
                f"SELECT md5((n / 100000)::text)::uuid, n, 1, 1, 1, 200, now() "
                f"FROM generate_series({first}, {last}) AS n"
            )

    def add_delayed(self, count):
        self.context.progress.step(f"{count:,} delayed rows")
        for first in range(1, count + 1, 500_000):
            last = min(count, first + 499_999)
            self.session.rows(
                "INSERT INTO peal.batch_delayed (slot, due_at, lane, app_id, job_id, route, page_no, page_offset, size, "
                "attempt, expires_at, done) SELECT 0, now() + n * interval '1 second' / 100, 3, n % 2000 + 1, "
                f"md5((n / 1000)::text)::uuid, 1, n % 1000, 0, 1, 2, now() + interval '3 days', '\\x00' "
                f"FROM generate_series({first}, {last}) AS n"
            )

    def publish(self, count):
        """Batches of 5,000 at the end of the fair order, one app after the other."""
        self.session.rows(
            "INSERT INTO peal.batch (slot, lane, vt, app_id, job_id, route, page_no, page_offset, size, expires_at, done) "
            f"SELECT 0, 3, {self.tag} + n, n % {self.apps} + 1, md5('job')::uuid, 1, 0, 0, 5000, "
            f"now() + interval '3 days', decode(repeat('00', 625), 'hex') FROM generate_series(1, {count}) AS n"
        )
        self.tag += count

    def claim(self):
        """One claim as a worker makes it; what it claimed ends as the last flush of a batch ends it."""
        now = time.monotonic()
        floor = None
        if self.swept_at is not None and now - self.swept_at < SWEEP_INTERVAL:
            while len(self.floors) > 1 and now - self.floors[1][0] >= FLOOR_LAG:
                self.floors.popleft()
            if self.floors and now - self.floors[0][0] >= FLOOR_LAG:
                floor = self.floors[0][1]
        else:
            self.swept_at = now
        before = self._spent() if floor is None else None
        rows = self.session.rows(self.text.replace("$4", str(floor) if floor is not None else "(-9223372036854775808)"))
        if before is not None:
            self.sweep_us.append(self._spent()[1] - before[1])
        ids = ",".join(row[0] for row in rows if len(row) > 5)
        highest = max(int(row[1]) for row in rows if len(row) > 5)
        if not self.floors or now - self.floors[-1][0] >= FLOOR_LAG / 8:
            self.floors.append((now, highest))
        self.session.rows(f"DELETE FROM peal.batch_campaign WHERE slot = 0 AND id IN ({ids})")

    def churn(self, claims):
        """So many claims, with as many new batches as they take."""
        while claims > 0:
            some = min(claims, 16)
            for _ in range(some):
                self.claim()
            self.publish(2 * some)
            claims -= some

    def round(self):
        """Mean µs of a claim, its call planned and all of it executed, by the server's own count."""
        calls, spent = self._spent()
        self.churn(CLAIMS_A_ROUND)
        calls_after, spent_after = self._spent()
        return (spent_after - spent) / (calls_after - calls)

    def _spent(self):
        row = self.session.rows(
            "SELECT coalesce(sum(calls), 0), coalesce(sum(total_plan_time + total_exec_time), 0) * 1000 "
            "FROM public.pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND query LIKE 'SELECT c.id, c.vt,%peal.claim_batches_campaign(%'"
        )[0]
        return int(row[0]), float(row[1])
