"""Single pushes: from the commit of the INSERT until the provider has the request, idle and beside a campaign."""

import json
import math
import os
import random
import time

from ..cluster import Caller, as_json
from ..campaign import CONTENT
from ..report import Bound, Figure

APP = "transactional"
LANES = ["transactional", "call"]
# Of fewer pushes the 99th percentile is the worst one.
LEAST_SAMPLES = 100


def measure(context):
    campaigns = context.campaigns
    size = context.pick(1_000_000, 100_000)
    count = context.pick(400, 100)
    ledger = context.file("ledger.jsonl")
    with context.simulator("--ledger", ledger) as simulator:
        campaigns.app(1_000, simulator, name=APP)
        trusted = context.file("ca.pem")
        with open(trusted, "w") as both:
            for file in (simulator.ca, context.quick_simulator.ca):
                both.write(open(file).read())
        with context.worker(campaigns.database, trusted), Caller(context.cluster, campaigns.database) as caller:
            for lane in LANES * 5:
                insert(caller, 1, lane)
                time.sleep(0.1)
            context.progress.step(f"{count} single pushes a lane, idle")
            idle = {lane: [paced(caller, number, lane) for number in range(count)] for lane in LANES}
            large = campaigns.app(size, context.quick_simulator)
            beside = {lane: [] for lane in LANES}
            for repetition in range(context.pick(6, 2)):
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
                            beside[lane].append(paced(caller, len(beside[lane]), lane))
            time.sleep(1)
            sent = [push for lanes in (idle, beside) for pushes in lanes.values() for push in pushes]
            stamps = commit_times(context.cluster, campaigns.database, sent)
    answered = read_ledger(ledger)
    settings = {
        "clock": "from the server's answer to the INSERT (one statement, its own commit) until the simulator has the "
                 "request; the note also says it from the server's stamp of the commit, before it waits for the disk",
        "pause_ms": [20, 60], "campaign": size,
    }
    later = "; a push in the lane of calls, calls themselves are a later feature"
    return [
        figure("transactional push, idle", idle["transactional"], stamps, answered, settings, Bound(15, of="value"),
               median_limit=4),
        figure("transactional push, beside a campaign", beside["transactional"], stamps, answered, settings,
               Bound(100, of="value")),
        figure("call lane, idle", idle["call"], stamps, answered, settings, Bound(10, of="value"), remark=later),
        figure("call lane, beside a campaign", beside["call"], stamps, answered, settings, Bound(50, of="value"), remark=later),
    ]


def insert(caller, user, lane):
    audience = as_json({"external_ids": [f"user-{user}"]})
    job, started, answered = caller.call(
        f"INSERT INTO peal.job (app, lane, audience, content) VALUES ('{APP}', '{lane}', {audience}, {as_json(CONTENT)}) "
        "RETURNING id || ' ' || pg_current_xact_id()"
    )
    return *job.split(), started * 1000, answered * 1000


def commit_times(cluster, database, sent):
    """When each INSERT was committed, in milliseconds, by its transaction."""
    transactions = ",".join(transaction for _, transaction, _, _ in sent)
    rows = cluster.sql(
        database, "SELECT x, extract(epoch FROM pg_xact_commit_timestamp(x::xid8::xid)) * 1000 "
        f"FROM unnest('{{{transactions}}}'::text[]) AS x"
    )
    return {row[0]: float(row[1]) for row in rows}


def paced(caller, number, lane):
    time.sleep(random.uniform(0.02, 0.06))
    return insert(caller, number % 1_000 + 1, lane)


def read_ledger(path):
    """When each message was received in milliseconds, by the half of its apns-id that is its job's."""
    received = {}
    if os.path.exists(path):
        with open(path) as ledger:
            for line in ledger:
                entry = json.loads(line)
                received[entry.get("id", "").lower().replace("-", "")[:16]] = entry["time_us"] / 1000
    return received


def figure(name, sent, stamps, received, settings, bound, median_limit=None, remark=""):
    runs, missing = [], 0
    for job, transaction, started, answered in sent:
        at = received.get(job.replace("-", "")[:16])
        if at is None:
            missing += 1
            continue
        runs.append({"latency_ms": at - answered, "after_stamp_ms": at - stamps[transaction],
                     "insert_ms": answered - started, "whole_ms": at - started})
    if not runs:
        return Figure(name, None, "ms", bound=bound, note=f"none of {len(sent)} pushes arrived")

    def p(what, share):
        return percentile([run[what] for run in runs], share)

    if len(runs) < LEAST_SAMPLES:
        # Too few to say that it holds, and enough to say that it does not.
        bound = bound if p("latency_ms", 100) > bound.limit else None
        remark = f"; too few to say what is promised{remark}"
    conditions = {"all arrived": missing == 0}
    if median_limit:
        conditions[f"p50 ≤ {median_limit} ms"] = p("latency_ms", 50) <= median_limit
    return Figure(
        f"{name}, p99", p("latency_ms", 99), "ms", p("insert_ms", 99), "ms INSERT and commit alone", bound,
        conditions=conditions,
        note="p50 {:.1f}, p90 {:.1f}, p99 {:.1f}, worst {:.1f} ms of {}; from the stamp of the commit, before the disk, "
             "p50 {:.1f}, p99 {:.1f}; INSERT and commit p50 {:.1f}; both p50 {:.1f}, p99 {:.1f}".format(
                 *(p("latency_ms", share) for share in (50, 90, 99, 100)), len(runs), p("after_stamp_ms", 50),
                 p("after_stamp_ms", 99), p("insert_ms", 50), p("whole_ms", 50), p("whole_ms", 99)) + remark,
        settings=settings, runs=[{what: round(value, 2) for what, value in run.items()} for run in runs],
    )


def percentile(values, share):
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]
