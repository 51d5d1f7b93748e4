"""Peers on the same machine in the same run: Python's HTTP/2 push clients, and a job queue on PostgreSQL."""

import json
import os
import subprocess
import time

from ..campaign import CONTENT, Campaigns
from ..cluster import as_json
from ..h2load import Request
from ..process import Measured
from ..report import Bound, Figure
from .client_cpu import PealClient

PACKAGES = ["aioapns==4.0", "httpx[http2]==0.28.1", "pgqueuer==1.6.0", "asyncpg==0.32.0"]
HERE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "peers")


def measure(context):
    context.progress.step("installing the peers into a virtual environment")
    try:
        python = environment()
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"the peers could not be installed into a virtual environment: {error}"
        return [
            Figure("CPU per push against aioapns", None, "µs", bound=Bound(1 / 50), note=reason),
            Figure("CPU per push against httpx", None, "µs", note=reason),
            Figure("single jobs per second against pgqueuer", None, "jobs/s", note=reason),
        ]
    # With words in tokens it reads its requests and answers with their apns-id, which aioapns insists on.
    with context.simulator("--quick", "--token-words") as simulator:
        context.progress.step("peal's client")
        clients = [PealClient(context, simulator, context.pick(200_000, 50_000)) for _ in range(3)]
        clients.sort(key=lambda client: client.cpu_us)
        figures = pushes(context, python, simulator, clients)
    return [*figures, jobs(context, python)]


def environment():
    """The interpreter of the peers' environment, made once in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    directory = os.path.join(cache, "peal-bench", "venv")
    python = os.path.join(directory, "bin", "python")
    wanted = "\n".join(PACKAGES)
    marker = os.path.join(directory, "packages")
    if os.path.exists(marker) and open(marker).read() == wanted:
        return python
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    subprocess.run(["python3", "-m", "venv", directory], timeout=60, **quiet)
    subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check", *PACKAGES], timeout=180, **quiet)
    with open(marker, "w") as file:
        file.write(wanted)
    return python


def pushes(context, python, simulator, clients):
    peal = clients[len(clients) // 2]
    request = Request(context.benchmarks, context.directory)
    bearer = next(h.split(": ", 1)[1] for h in request.headers if h.startswith("authorization"))
    count = context.pick(5_000, 1_000)
    figures = []
    for name, bound, in_flight, script, words in (
        ("aioapns", Bound(1 / 50), 200, "aioapns_load.py",
         [simulator.ca, f"{simulator.directory}/apns-key.p8", simulator.key_id, simulator.team_id]),
        ("httpx", None, 100, "httpx_load.py", [simulator.ca, bearer]),
    ):
        context.progress.step(f"{count:,} pushes through {name}")
        total = count if name == "aioapns" else count // 2
        found = load(python, script, str(simulator.apns_port), *words, str(total), str(in_flight))
        figures.append(Figure(
            f"CPU per push against {name}", peal.cpu_us, "µs", found["cpu_seconds"] / total * 1e6, f"µs {name}", bound,
            conditions={"all accepted": found["accepted"] == total},
            note=f"one connection each; {total / found['seconds']:,.0f} pushes/s with {in_flight} in flight against "
                 f"{peal.rate:,.0f} of peal's client with 1,000",
            settings={"version": version(python, name), "in_flight": in_flight, "pushes": total},
            runs=[found] + [{"peal_cpu_us": client.cpu_us, "peal_rate": client.rate} for client in clients],
        ))
    return figures


def jobs(context, python):
    """Jobs of one recipient, inserted beforehand, until the last is done: peal also sends a push for each."""
    count = context.pick(10_000, 2_000)
    # A database of its own: to count among the results of other figures' campaigns would take a core for itself.
    campaigns = Campaigns(context, "single_jobs")
    simulator = context.quick_simulator
    slug = campaigns.app(1_000, simulator, name="single-jobs")
    context.progress.step(f"{count:,} jobs of one push each")
    with context.cluster.session(campaigns.database) as session:
        session.rows(
            f"INSERT INTO peal.job (app, audience, content) SELECT '{slug}', "
            "jsonb_build_object('external_ids', jsonb_build_array('user-' || n % 1000 + 1)), "
            f"{as_json(CONTENT)} FROM generate_series(1, {count}) AS n"
        )
        before, start = context.cluster.cpu() - session.cpu(), time.monotonic()
        with context.worker(campaigns.database, simulator.ca) as worker:
            while session.value("SELECT count(*) FROM peal.result") != str(count):
                if time.monotonic() - start > 120:
                    raise TimeoutError("the jobs were not done within two minutes")
                time.sleep(0.1)
            seconds = time.monotonic() - start
            worker_us = worker.cpu() / count * 1e6
        database_us = (context.cluster.cpu() - session.cpu() - before) / count * 1e6
        accepted = int(session.value("SELECT count(*) FROM peal.result WHERE outcome = 1"))
        wrong = int(session.value("SELECT count(*) FROM peal.check_accounting()"))
    context.cluster.sql("postgres", "DROP DATABASE single_jobs WITH (FORCE)")
    context.progress.step(f"{count:,} jobs through pgqueuer")
    context.cluster.sql("postgres", "CREATE DATABASE pgqueuer")
    cpu = context.cluster.cpu()
    found = load(python, "pgqueuer_load.py", context.cluster.url("pgqueuer"), str(count), "500")
    found["database_cpu_us"] = (context.cluster.cpu() - cpu) / count * 1e6
    context.cluster.sql("postgres", "DROP DATABASE pgqueuer WITH (FORCE)")
    return Figure(
        "single jobs per second against pgqueuer", count / seconds, "jobs/s", count / found["seconds"],
        "jobs/s pgqueuer",
        conditions={"all done": found["done"] == count, "every push accepted and accounted for": accepted == count and not wrong},
        note=f"peal fans out, sends and writes a result for each, its start included: worker {worker_us:.0f} + database "
             f"{database_us:.0f} µs; pgqueuer's jobs do nothing: worker {found['cpu_seconds'] / count * 1e6:.0f} + "
             f"database {found['database_cpu_us']:.0f} µs (with its enqueue)",
        settings={"version": version(python, "pgqueuer"), "jobs": count, "batch_size": 500},
        runs=[found, {"peal_seconds": seconds, "peal_worker_us": worker_us, "peal_database_us": database_us,
                      "peal_accounting": wrong}],
    )


def load(python, script, *words):
    # ops/bench keeps its own Python from what lies about; these import what lies beside them.
    run = Measured([python, os.path.join(HERE, script), *words], timeout=120, environment={"PYTHONSAFEPATH": ""})
    return json.loads(run.output.strip().splitlines()[-1])


def version(python, package):
    done = subprocess.run(
        [python, "-c", f"import importlib.metadata as m; print(m.version('{package}'))"], capture_output=True, text=True,
        timeout=30,
    )
    return done.stdout.strip()
