"""Single pushes: from the commit of the INSERT until the provider has the request, idle and beside a campaign."""

import json
import os
import random
import time

from ..cluster import as_json
from ..campaign import CONTENT
from ..report import Bound, Figure

APP = "transactional"
LANES = ["transactional", "call"]


def measure(context):
    campaigns = context.campaigns
    size = context.pick(1_000_000, 100_000)
    count = context.pick(400, 100)
    ledger = context.file("ledger.jsonl")
    with context.simulator("--ledger", ledger) as simulator:
        campaigns.app(1_000, simulator, name=APP)
        large = campaigns.app(size, context.quick_simulator)
        trusted = context.file("ca.pem")
        with open(trusted, "w") as both:
            for file in (simulator.ca, context.quick_simulator.ca):
                both.write(open(file).read())
        with context.worker(campaigns.database, trusted), context.cluster.session(campaigns.database) as session:
            for lane in LANES * 5:
                insert(session, 1, lane)
                time.sleep(0.1)
            context.progress.step(f"{count} single pushes a lane, idle")
            idle = {lane: [paced(session, number, lane) for number in range(count)] for lane in LANES}
            time.sleep(0.5)
            beside = {lane: [] for lane in LANES}
            for repetition in range(context.pick(4, 2)):
                context.progress.step(f"single pushes beside a campaign to {size:,}, campaign {repetition + 1}")
                with context.cluster.session(campaigns.database) as watch:
                    job = campaigns.insert(watch, large)
                    # Until the audience is frozen the campaign does not send.
                    deadline = time.monotonic() + 60
                    while watch.value(f"SELECT published_pages FROM peal.job WHERE id = '{job}'") == "0":
                        if time.monotonic() > deadline:
                            raise TimeoutError("the campaign did not begin within a minute")
                        time.sleep(0.01)
                    deadline = time.monotonic() + 240
                    while not campaigns.is_done(watch, job):
                        if time.monotonic() > deadline:
                            raise TimeoutError("the campaign did not end within four minutes")
                        for lane in LANES:
                            beside[lane].append(paced(session, len(beside[lane]), lane))
            time.sleep(1)
    answered = read_ledger(ledger)
    settings = {
        "clock": "from the server's answer to the INSERT (one statement, its own commit) until the simulator has the "
                 "request",
        "pause_ms": [20, 60], "campaign": size,
    }
    later = "; a push in the lane of calls, calls themselves are a later feature"
    return [
        figure("transactional push, idle", idle["transactional"], answered, settings, Bound(15, of="value"),
               median_limit=4),
        figure("transactional push, beside a campaign", beside["transactional"], answered, settings,
               Bound(100, of="value")),
        figure("call lane, idle", idle["call"], answered, settings, Bound(10, of="value"), remark=later),
        figure("call lane, beside a campaign", beside["call"], answered, settings, Bound(50, of="value"), remark=later),
    ]


def insert(session, user, lane):
    audience = as_json({"external_ids": [f"user-{user}"]})
    started = time.time()
    job = session.value(
        f"INSERT INTO peal.job (app, lane, audience, content) VALUES ('{APP}', '{lane}', {audience}, {as_json(CONTENT)}) "
        "RETURNING id"
    )
    return job, started, time.time()


def paced(session, number, lane):
    time.sleep(random.uniform(0.02, 0.06))
    return insert(session, number % 1_000 + 1, lane)


def read_ledger(path):
    """When each message was received in milliseconds, by the half of its apns-id that is its job's."""
    received = {}
    if os.path.exists(path):
        with open(path) as ledger:
            for line in ledger:
                entry = json.loads(line)
                received[entry.get("id", "").lower().replace("-", "")[:16]] = entry["time_us"] / 1000
    return received


def figure(name, sent, received, settings, bound, median_limit=None, remark=""):
    latencies, commits, wholes, missing = [], [], [], 0
    for job, started, committed in sent:
        at = received.get(job.replace("-", "")[:16])
        if at is None:
            missing += 1
            continue
        latencies.append(at - committed * 1000)
        wholes.append(at - started * 1000)
        commits.append((committed - started) * 1000)
    if not latencies:
        return Figure(name, None, "ms", bound=bound, note=f"none of {len(sent)} pushes arrived")
    p = {share: percentile(latencies, share) for share in (50, 90, 99, 100)}
    conditions = {"all arrived": missing == 0}
    if median_limit:
        conditions[f"p50 ≤ {median_limit} ms"] = p[50] <= median_limit
    return Figure(
        f"{name}, p99", p[99], "ms", percentile(commits, 99), "ms INSERT and commit alone", bound,
        conditions=conditions,
        note="p50 {:.1f}, p90 {:.1f}, p99 {:.1f}, worst {:.1f} ms of {}; before it INSERT and commit p50 {:.1f}; both "
             "p50 {:.1f}, p99 {:.1f}".format(
                 p[50], p[90], p[99], p[100], len(latencies), percentile(commits, 50), percentile(wholes, 50),
                 percentile(wholes, 99)) + remark,
        settings=settings,
        runs=[{"latency_ms": round(a, 2), "commit_ms": round(b, 2)} for a, b in zip(latencies, commits)],
    )


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))]
