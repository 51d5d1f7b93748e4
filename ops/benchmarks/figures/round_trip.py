"""Rates with a provider that is far away: streams open divided by the round trip is what there is to reach."""

import subprocess

from ..report import Bound, Figure

# Round trip in ms, streams that the provider allows on a connection, recipients. Few enough streams that the round
# trip is the limit and not the machine.
CASES = [(50, 100, 100_000), (300, 500, 100_000)]
QUICK_CASES = [(50, 100, 40_000), (300, 500, 30_000)]
# What a worker opens to one provider for campaigns at most; others, such as that of a probe, carry none of it.
CONNECTIONS_AT_MOST = 4


def measure(context):
    option = delay_option(context)
    return [one(context, option, *case) for case in context.pick(CASES, QUICK_CASES)]


def delay_option(context):
    text = subprocess.run([context.peal, "simulate", "--help"], capture_output=True, text=True, timeout=30).stdout
    return "--round-trip-ms" if "--round-trip-ms" in text else "--latency-ms"


def one(context, option, milliseconds, streams, size):
    campaigns = context.campaigns
    context.progress.step(f"campaign to {size:,} with {milliseconds} ms round trip")
    # It checks everything and obeys --streams, unlike with --quick; at these rates that is no limit.
    with context.simulator("--ledger-tokens-only", option, str(milliseconds), "--streams", str(streams)) as simulator:
        slug = campaigns.app(size, simulator, name=f"far-{milliseconds}")
        with context.worker(campaigns.database, simulator.ca) as worker:
            campaigns.warm_up(slug)
            with context.cluster.session(campaigns.database) as session:
                run = campaigns.run(slug, size, [worker], simulator)
                rate = steady_rate(session, slug)
            connections = min(established(simulator.apns_port), CONNECTIONS_AT_MOST)
    ideal = connections * streams / milliseconds * 1000
    return Figure(
        f"rate at {milliseconds} ms round trip", rate, "recipients/s", ideal, "streams ÷ latency",
        Bound(0.9, at_least=True), conditions={"every recipient accepted and accounted for": run.is_complete},
        note=f"{connections} connections of {streams} streams; between the first and the last tenth of the results; "
             f"over the whole campaign {run.rate:,.0f}; CPU a recipient: worker {run.cpu_us('worker'):.1f} + database "
             f"{run.cpu_us('database'):.1f} µs, polls and all",
        settings={"simulator_option": option, "streams": streams, "connections": connections},
        runs=[{**run.as_json(), "steady_rate": rate}],
    )


def steady_rate(session, slug):
    """Results a second between the first and the last tenth of a campaign."""
    row = session.rows(
        "WITH flush AS (SELECT recorded_at AS at, count(*) AS n FROM peal.result WHERE job_id = (SELECT id FROM peal.job "
        f"WHERE app = '{slug}' ORDER BY id DESC LIMIT 1) GROUP BY 1), "
        "sums AS (SELECT at, sum(n) OVER (ORDER BY at) AS upto, sum(n) OVER () AS total FROM flush), "
        "middle AS (SELECT at, upto FROM sums WHERE upto BETWEEN total * 0.1 AND total * 0.9) "
        "SELECT max(upto) - min(upto), extract(epoch FROM max(at) - min(at)) FROM middle"
    )[0]
    return float(row[0]) / float(row[1])


def established(port):
    """How many connections are open to a local port, by the server's side of them."""
    count = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as sockets:
            for line in sockets.readlines()[1:]:
                words = line.split()
                count += int(words[1].rpartition(":")[2], 16) == port and words[3] == "01"
    return count
