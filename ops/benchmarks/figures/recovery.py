"""kill -9 of the only worker in the middle of a campaign; another one is started at once."""

import time

from ..report import Bound, Figure

LEASE = 30
# How often a claim looks below its floor, where expired leases are (LaneSettings.campaign).
SWEEP_INTERVAL = 10


def measure(context):
    size = context.pick(1_000_000, 100_000)
    campaigns = context.campaigns
    # Slow enough that there is a middle.
    with context.simulator("--quick", "--latency-ms", "20", "--streams", "250") as simulator:
        slug = campaigns.app(size, simulator, name="recovery")
        first = context.start_worker(campaigns.database, simulator.ca)
        second = None
        try:
            with context.cluster.session(campaigns.database) as session:
                context.progress.step(f"campaign to {size:,} until a third is sent, then kill -9")
                job = campaigns.insert(session, slug)
                wait_until(lambda: settled(session, job) >= size // 3, 120, "a third of the campaign was not sent")
                first.kill()
                killed = time.monotonic()
                leased = session.rows(
                    "SELECT id, lease_token FROM peal.batch WHERE lease_until > now() AND "
                    f"job_id = '{job}' AND lease_token IS NOT NULL"
                )
                second = context.start_worker(campaigns.database, simulator.ca)
                left = " OR ".join(f"(id = {row[0]} AND lease_token = '{row[1]}')" for row in leased) or "false"
                context.progress.step(f"{len(leased)} leased batches were in its hands")
                wait_until(
                    lambda: session.value(f"SELECT count(*) FROM peal.batch WHERE {left}") == "0",
                    LEASE + 60, "the leased batches were not taken up",
                )
                recovered = time.monotonic() - killed
                campaigns.wait(session, job, 240)
                finished = time.monotonic() - killed
                results = [int(value) for value in session.rows(
                    "SELECT count(*), count(DISTINCT device_id), count(*) FILTER (WHERE outcome = 1) "
                    f"FROM peal.result WHERE job_id = '{job}'")[0]]
                wrong = int(session.value("SELECT count(*) FROM peal.check_accounting()"))
        finally:
            for worker in (first, second):
                if worker:
                    worker.stop()
    twice = simulator.requests() - size
    return [Figure(
        "recovery after kill -9", recovered, "s", LEASE, "s lease", Bound(LEASE + SWEEP_INTERVAL + 2, of="value"),
        conditions={
            "the killed worker had batches in hand": len(leased) > 0,
            "every recipient has one result": results[0] == results[1] == size,
            "the count adds up": wrong == 0,
        },
        note=f"bound: the lease, {SWEEP_INTERVAL} s until a claim looks at old tags too, and 2 s; until the {len(leased)} batches of the killed worker were taken up, other batches went on at once; the "
             f"campaign ended {finished:.1f} s after the kill; {max(0, twice):,} of {size:,} were sent twice (in doubt)",
        settings={"recipients": size, "lease_seconds": LEASE, "sweep_interval_seconds": SWEEP_INTERVAL, "on_doubt": "resend"},
        runs=[{"recovered_seconds": recovered, "finished_seconds": finished, "leased_batches": len(leased),
               "sent_twice": twice, "results": results[0], "devices": results[1], "accepted": results[2]}],
    )]


def settled(session, job):
    return int(session.value(
        "SELECT coalesce(sum(n), 0)::bigint FROM (SELECT n FROM peal.stat_delta "
        f"WHERE job_id = '{job}' UNION ALL SELECT n FROM peal.job_stat WHERE job_id = '{job}') AS s"
    ))


def wait_until(condition, seconds, fault):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{fault} within {seconds} s")
        time.sleep(0.05)
