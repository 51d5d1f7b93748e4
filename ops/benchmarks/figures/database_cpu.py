"""CPU of PostgreSQL per recipient, by statement, beside bare SQL that moves the same rows."""

import collections
import glob
import json
import os
import re
import time

from ..bare import bare_sql
from ..campaign import median
from ..report import Bound, Figure

# Statements that cost less than this (µs a recipient) are gathered in one line.
SHOWN_FROM = 0.02


def measure(context):
    size = context.pick(1_000_000, 100_000)
    runs = context.campaigns.measured(size, 2)
    # To wait for autovacuum takes most of a minute.
    upkeep = 0.0 if context.quick else upkeep_after(context, size)
    upkeep_note = "without autovacuum, which --quick does not wait for" if context.quick else (
        f"and {upkeep:.2f} of autovacuum, most of it afterwards")
    context.progress.step("bare SQL: freeze, read, COPY")
    bare = bare_sql(context, size)
    total = median([run.cpu_us("database") - run.cpu_us("upkeep") for run in runs]) + upkeep
    context.progress.step(f"campaign to {size:,} with the CPU of each statement logged")
    shares, calls, logged = by_statement(context, size)
    settings = {"recipients": size, "audience": "all", "measured_by": "/proc of all server processes"}
    figures = [Figure(
        "database CPU per recipient", total, "µs", sum(bare[name] for name in ("freeze_us", "read_us", "copy_us")),
        "µs bare SQL", Bound(5, of="value"), settings=settings,
        conditions={"every recipient accepted and accounted for": all(run.is_complete for run in runs)},
        note=f"freeze, publish, claim, look-up, results, roll-up, background processes, {upkeep_note}; the lines below are of "
             "another run, with each statement logged; bare SQL: freeze {freeze_us:.2f}, read {read_us:.2f}, COPY of results "
             "{copy_us:.2f}".format(**bare),
        runs=[run.as_json() for run in runs] + [bare, {"upkeep_after_us": upkeep}],
    )]
    small = 0.0
    for name, cost in sorted(shares.items(), key=lambda share: -share[1]):
        if cost >= SHOWN_FROM:
            figures.append(Figure(f"  of it {name}", cost, "µs", runs=[{"calls": calls[name]}],
                                  note=f"{calls[name]:,} calls", settings={"measured_by": "log_statement_stats"}))
        else:
            small += cost
    figures.append(Figure("  of it other statements", small, "µs", settings={"measured_by": "log_statement_stats"}))
    rest = logged.cpu_us("database") - sum(shares.values())
    figures.append(Figure(
        "  of it commits, protocol, background", rest, "µs", runs=[logged.as_json()],
        note=f"the rest of {logged.cpu_us('database'):.2f} µs; with each statement's CPU logged, which costs by itself",
    ))
    return figures


# Longer than two rounds of autovacuum, and long enough to tell what an idle server uses.
UPKEEP_SECONDS = 22
IDLE_SECONDS = 8


def upkeep_after(context, size):
    """CPU µs per recipient that autovacuum spends on a campaign, in its course and once it is over."""
    campaigns = context.campaigns
    simulator = context.quick_simulator
    slug = campaigns.app(size, simulator)
    with context.worker(campaigns.database, simulator.ca) as worker:
        campaigns.warm_up(slug)
        context.progress.step(f"waiting until autovacuum is done with what was before, {UPKEEP_SECONDS} s")
        time.sleep(UPKEEP_SECONDS)
        run = campaigns.run(slug, size, [worker], simulator)
        context.progress.step(f"what autovacuum does after a campaign to {size:,}, {UPKEEP_SECONDS + IDLE_SECONDS} s")
        after = context.cluster.cpu()
        time.sleep(UPKEEP_SECONDS)
        spent = context.cluster.cpu() - after
        time.sleep(IDLE_SECONDS)
        idle = (context.cluster.cpu() - after - spent) / IDLE_SECONDS
    return run.cpu_us("upkeep") + max(0.0, spent - idle * UPKEEP_SECONDS) / size * 1e6


def by_statement(context, size):
    """CPU µs per recipient and calls of each statement by the server's own getrusage, and the run that they are from."""
    cluster = context.cluster
    for old in glob.glob(f"{cluster.logs}/*.json"):
        os.remove(old)
    with cluster.session("postgres") as session:
        session.rows("ALTER SYSTEM SET log_destination = 'jsonlog'")
        session.rows("ALTER SYSTEM SET log_statement_stats = on")
        session.rows("SELECT pg_reload_conf()")
        try:
            time.sleep(0.5)
            simulator = context.quick_simulator
            campaigns = context.campaigns
            slug = campaigns.app(size, simulator)
            with context.worker(campaigns.database, simulator.ca) as worker:
                campaigns.warm_up(slug)
                # What was logged so far belongs to the warm-up.
                offsets = {path: os.path.getsize(path) for path in glob.glob(f"{cluster.logs}/*.json")}
                run = campaigns.run(slug, size, [worker], simulator)
            time.sleep(0.5)
        finally:
            session.rows("ALTER SYSTEM RESET ALL")
            session.rows("SELECT pg_reload_conf()")
    names = statement_names(context.root)
    seconds, calls = collections.Counter(), collections.Counter()
    for path in sorted(glob.glob(f"{cluster.logs}/*.json")):
        with open(path, errors="replace") as log:
            log.seek(offsets.get(path, 0))
            for line in log:
                add_statistics(line, names, seconds, calls)
    return {name: value / size * 1e6 for name, value in seconds.items()}, calls, run


def add_statistics(line, names, seconds, calls):
    try:
        entry = json.loads(line)
    except ValueError:
        return
    if not entry.get("message", "").endswith("STATISTICS") or entry.get("application_name") == "ops/bench":
        return
    found = re.search(r"!\s+([\d.]+) s user, ([\d.]+) s system", entry.get("detail", ""))
    if found:
        statement = entry.get("statement", "")
        name = names.get(statement.split("\n", 1)[0]) or words(statement)
        seconds[name] += float(found.group(1)) + float(found.group(2))
        calls[name] += entry["message"].startswith(("EXECUTE", "QUERY"))


def statement_names(root):
    """The file of each statement, by its first line."""
    names = {}
    for path in glob.glob(f"{root}/sql/queries/*.sql"):
        with open(path) as file:
            names[file.readline().rstrip("\n")] = os.path.basename(path).removesuffix(".sql")
    return names


def words(statement):
    bare = re.sub(r"--[^\n]*\n", "", statement)
    called = re.search(r"peal\.(\w+)\(", bare)
    return called.group(1) if called else " ".join(bare.split()[:4]) or "unnamed"
