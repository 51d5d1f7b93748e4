"""Apps with devices, and campaigns to them, measured from outside: the clock, /proc and the tables."""

import dataclasses
import statistics
import time

from .cluster import as_json, quoted

CONTENT = {
    "title": "The sale begins",
    "body": "Half the price on everything today, in all shops and online.",
    "sound": "default",
    "data": {"campaign": "sale-1", "page": "/sale/today"},
}
POLL = 0.02
SAMPLED_EVERY = 0.05


@dataclasses.dataclass
class Run:
    """One campaign, from the INSERT of the job to its last durable result."""

    recipients: int
    seconds: float
    worker_cpu: float
    database_cpu: float
    simulator_cpu: float
    # Of the database's: what autovacuum used meanwhile, to a twentieth of a second.
    upkeep_cpu: float
    accepted: int
    # (seconds since the start, bytes) of each worker.
    memory: list
    accounting: int
    frozen_seconds: float | None = None

    @property
    def rate(self):
        return self.recipients / self.seconds

    def cpu_us(self, what):
        return getattr(self, f"{what}_cpu") / self.recipients * 1e6

    @property
    def peal_cpu_us(self):
        """Worker and database together: what a recipient costs without the provider."""
        return self.cpu_us("worker") + self.cpu_us("database")

    @property
    def own_cpu_us(self):
        """The same without autovacuum, which comes after a short campaign and into a long one."""
        return self.peal_cpu_us - self.cpu_us("upkeep")

    @property
    def is_complete(self):
        return self.accepted == self.recipients and self.accounting == 0

    def as_json(self):
        return {
            "recipients": self.recipients,
            "seconds": round(self.seconds, 3),
            "recipients_per_second": round(self.rate),
            "worker_cpu_us": round(self.cpu_us("worker"), 3),
            "database_cpu_us": round(self.cpu_us("database"), 3),
            "upkeep_cpu_us": round(self.cpu_us("upkeep"), 3),
            "simulator_cpu_us": round(self.cpu_us("simulator"), 3),
            "accepted": self.accepted,
            "jobs_that_do_not_add_up": self.accounting,
            "memory_peak_bytes": max((size for _, size in self.memory), default=None),
        }


class Campaigns:
    """A database with apps of given sizes, one credential each, and what campaigns to them cost."""

    def __init__(self, context, database):
        self.context = context
        self.database = database
        context.progress.step(f"making the database {database}")
        context.cluster.sql("postgres", f'CREATE DATABASE "{database}"')
        context.cluster.sql(database, "CREATE EXTENSION pg_stat_statements SCHEMA public")
        context.run_peal(database, "migrate")
        self._apps = set()
        self._runs = {}

    def app(self, size, simulator, name=None):
        """The slug of an app with so many devices of iOS, which sends to the simulator."""
        slug = name or f"app-{size}"
        if slug in self._apps:
            return slug
        context = self.context
        context.progress.step(f"making {size:,} devices")
        context.run_peal(self.database, "app", "create", slug)
        self.add_credential(slug, simulator)
        add_devices(context.cluster, self.database, slug, size)
        self._apps.add(slug)
        return slug

    def add_credential(self, slug, simulator):
        self.context.run_peal(
            self.database, "credential", "add", slug, "apns", "--key", f"{simulator.directory}/apns-key.p8",
            "--key-id", simulator.key_id, "--team-id", simulator.team_id, "--topic", "com.example.shop",
            "--environment", "production", "--endpoint", simulator.apns, ca=simulator.ca,
        )

    def measured(self, size, times):
        """Runs of a campaign to all devices of an app of that size: one worker, the quick simulator."""
        runs = self._runs.setdefault(size, [])
        if len(runs) < times:
            simulator = self.context.quick_simulator
            slug = self.app(size, simulator)
            with self.context.worker(self.database, simulator.ca) as worker:
                self.warm_up(slug)
                while len(runs) < times:
                    self.context.progress.step(f"campaign to {size:,}, run {len(runs) + 1} of {times}")
                    runs.append(self.run(slug, size, [worker], simulator))
        return runs

    def insert(self, session, slug, audience=None, lane=None):
        lane_column, lane_value = (", lane", f", {quoted(lane)}") if lane else ("", "")
        return session.value(
            f"INSERT INTO peal.job (app, audience, content, collapse_id{lane_column}) VALUES "
            f"({quoted(slug)}, {as_json(audience or {'all': True})}, {as_json(CONTENT)}, 'sale-1'{lane_value}) RETURNING id"
        )

    def warm_up(self, slug):
        """A campaign to a few of the app's users: afterwards connections are open and statements were used once."""
        with self.context.cluster.session(self.database) as session:
            users = [f"user-{number}" for number in range(1, 1001)]
            self.wait(session, self.insert(session, slug, {"external_ids": users}, "campaign"), 60)

    def run(self, slug, size, workers, simulator, timeout=600):
        """One campaign to an app's devices, measured."""
        context = self.context
        with context.cluster.session(self.database) as session:
            before = self._cpu(workers, simulator, session)
            upkeep_before = context.cluster.upkeep_cpu()
            upkeep = dict(upkeep_before)
            memory = []
            start = time.monotonic()
            job = self.insert(session, slug)
            sampled = 0.0
            while not self.is_done(session, job):
                now = time.monotonic() - start
                if now > timeout:
                    raise TimeoutError(f"the campaign to {size:,} did not end within {timeout} s")
                if now - sampled >= SAMPLED_EVERY:
                    sampled = now
                    upkeep.update(context.cluster.upkeep_cpu())
                    for worker in workers:
                        worker.check()
                    memory.append((round(now, 2), max(worker.memory() for worker in workers)))
                time.sleep(POLL)
            self.wait_until_durable(session)
            seconds = time.monotonic() - start
            after = self._cpu(workers, simulator, session)
            accepted = int(session.value(
                f"SELECT count(*) FROM peal.result WHERE job_id = '{job}' AND outcome = 1"
            ))
            accounting = int(session.value("SELECT count(*) FROM peal.check_accounting()"))
            frozen = session.value(
                f"SELECT extract(epoch FROM frozen_at - queued_at) FROM peal.job WHERE id = '{job}'"
            )
        worker_cpu, database_cpu, simulator_cpu = (y - x for x, y in zip(before, after))
        upkeep_cpu = sum(upkeep.values()) - sum(upkeep_before.values())
        return Run(
            size, seconds, worker_cpu, database_cpu, simulator_cpu, upkeep_cpu, accepted, memory, accounting, float(frozen)
        )

    def is_done(self, session, job):
        """Whether everything is published and no batch is left: the last result is committed with the last batch."""
        return session.value(
            "SELECT frozen_at IS NOT NULL AND published_pages = page_count "
            f"AND NOT EXISTS (SELECT FROM peal.batch AS b WHERE b.job_id = j.id) "
            f"AND NOT EXISTS (SELECT FROM peal.batch_delayed AS d WHERE d.job_id = j.id) "
            f"FROM peal.job AS j WHERE id = '{job}'"
        ) == "t"

    def wait_until_durable(self, session):
        """Waits until what is committed by now would outlast a crash of the server: bulk flushes do not wait for that."""
        written = session.value("SELECT pg_current_wal_insert_lsn()")
        deadline = time.monotonic() + 10
        while session.value(f"SELECT pg_current_wal_flush_lsn() >= '{written}'") != "t":
            if time.monotonic() > deadline:
                raise TimeoutError("what was committed did not reach the disk within ten seconds")
            time.sleep(0.002)

    def wait(self, session, job, timeout):
        deadline = time.monotonic() + timeout
        while not self.is_done(session, job):
            if time.monotonic() > deadline:
                raise TimeoutError(f"a campaign did not end within {timeout} s")
            time.sleep(POLL)

    def _cpu(self, workers, simulator, session):
        # Without what looking costs.
        return (
            sum(worker.cpu() for worker in workers),
            self.context.cluster.cpu() - session.cpu(),
            simulator.cpu(),
        )


def add_devices(cluster, database, slug, size):
    """Devices numbered 1 … size, with tokens of 64 hex digits and users of the same numbers."""
    with cluster.session(database) as session:
        for first in range(1, size + 1, 250_000):
            last = min(size, first + 249_999)
            session.rows(
                "INSERT INTO peal.device (app_id, channel, token, external_id, locale, timezone) "
                f"SELECT (SELECT id FROM peal.app WHERE slug = {quoted(slug)}), 'ios', "
                f"encode(sha256(convert_to({quoted(slug)} || n, 'UTF8')), 'hex'), 'user-' || n, 'en-GB', 'Europe/London' "
                f"FROM generate_series({first}, {last}) AS n"
            )
        session.rows("VACUUM (ANALYZE) peal.device")
        # Devices are not made in the minute before a campaign: their pages are on the disk when it begins.
        session.rows("CHECKPOINT")


def median(values):
    return statistics.median(values)
