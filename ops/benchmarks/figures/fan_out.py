"""Fan-out alone: freezing an audience and publishing its first window, with no one to send it."""

import time

from ..bare import bare_sql
from ..campaign import median
from ..report import Figure


def measure(context):
    size = context.pick(1_000_000, 100_000)
    campaigns = context.campaigns
    simulator = context.quick_simulator
    slug = campaigns.app(size, simulator)
    bare = bare_sql(context, size)
    runs = []
    with context.worker(campaigns.database, simulator.ca, "--roles", "scheduler,fanout") as worker, \
            context.cluster.session(campaigns.database) as session:
        time.sleep(1)
        for number in range(context.pick(3, 2)):
            context.progress.step(f"freeze of {size:,}, run {number + 1}")
            worker_cpu, cpu = worker.cpu(), context.cluster.cpu() - session.cpu()
            start = time.monotonic()
            job = campaigns.insert(session, slug)
            # Published as far as the window goes: nobody claims.
            while session.value(f"SELECT frozen_at IS NOT NULL FROM peal.job WHERE id = '{job}'") != "t":
                worker.check()
                if time.monotonic() - start > 120:
                    raise TimeoutError("the freeze did not end within two minutes")
                time.sleep(0.01)
            seconds = time.monotonic() - start
            runs.append({
                "seconds": seconds,
                "database_cpu_us": (context.cluster.cpu() - session.cpu() - cpu) / size * 1e6,
                "worker_cpu_us": (worker.cpu() - worker_cpu) / size * 1e6,
                "published": int(session.value(
                    f"SELECT coalesce(sum(size), 0) FROM peal.batch WHERE job_id = '{job}'")),
            })
            session.rows(f"SELECT peal.cancel_job('{job}')")
            deadline = time.monotonic() + 60
            while session.value(f"SELECT completed_at IS NULL FROM peal.job WHERE id = '{job}'") == "t":
                if time.monotonic() > deadline:
                    raise TimeoutError("the cancelled job did not complete within a minute")
                time.sleep(0.05)
    published = runs[-1]["published"]
    return [
        Figure("fan-out alone (freeze)", size / median([run["seconds"] for run in runs]), "recipients/s",
               size / bare["freeze_seconds"], "bare SQL/s", runs=[*runs, bare],
               settings={"recipients": size, "batches_ahead": 64},
               note=f"from the INSERT to the frozen audience; {published:,} recipients published meanwhile"),
        Figure("fan-out alone, database CPU per recipient", median([run["database_cpu_us"] for run in runs]), "µs",
               bare["freeze_us"], "µs bare SQL", runs=[*runs, bare],
               note=f"worker beside it {median([run['worker_cpu_us'] for run in runs]):.3f} µs"),
    ]
