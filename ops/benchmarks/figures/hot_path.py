"""Instructions and allocations per push: figures that repeat from run to run, held by thresholds."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

from ..process import Measured
from ..report import Bound, Figure
from .client_cpu import PealClient

THRESHOLDS = "ops/hot-path-thresholds.json"
LENGTHS = (5_000, 20_000)


def measure(context):
    found = per_push(context)
    held = thresholds(context.root)
    return [
        Figure(
            "instructions per push, client", found["instructions"], "instructions", held["instructions"]["expected"],
            "expected", Bound(24_000, of="value"), settings={"valgrind_tool": "callgrind", "lengths": LENGTHS},
            conditions=within(held, "instructions", found),
            note="callgrind, difference of two lengths", runs=found["runs"],
        ),
        Figure(
            "allocations per push, client, own code", found["client_own_allocations"], "",
            bound=Bound(1, of="value"), conditions=within(held, "client_own_allocations", found), runs=found["runs"],
            note=f"with libnghttp2 and OpenSSL {found['client_allocations']:.2f}",
        ),
        Figure(
            "allocations per push, whole worker, own code", found["worker_own_allocations"], "",
            bound=Bound(1, of="value"), conditions=within(held, "worker_own_allocations", found), runs=found["runs"],
            note="fan-out, claim, look-up, render, send, settle, COPY: difference of two campaigns; with the C libraries "
                 f"{found['worker_allocations']:.2f}",
        ),
    ]


def thresholds(root):
    with open(os.path.join(root, THRESHOLDS)) as file:
        return json.load(file)


def within(held, name, found):
    """The condition that a figure is neither above nor below what the file expects: a gain is to be held as well."""
    expected, slack = held[name]["expected"], held[name]["slack"]
    return {f"{expected:,} ± {slack:,} ({THRESHOLDS})": abs(found[name] - expected) <= slack}


def per_push(context):
    return context.once("per push", lambda: _per_push(context))


def _per_push(context):
    simulator = context.quick_simulator
    runs = []
    counts = [instructions(context, simulator, requests, runs) for requests in LENGTHS]
    found = {"instructions": (counts[1] - counts[0]) / (LENGTHS[1] - LENGTHS[0])}
    context.progress.step("allocations of the client")
    clients = [PealClient(context, simulator, requests, options=["--count-allocations"]) for requests in (50_000, 150_000)]
    for name in ("own_allocations", "allocations"):
        found[f"client_{name}"] = (getattr(clients[1], name) - getattr(clients[0], name)) / 100_000
    runs.append({"client_allocations": [client.allocations for client in clients],
                 "client_own_allocations": [client.own_allocations for client in clients]})
    found["worker_own_allocations"], found["worker_allocations"] = worker_allocations(context, simulator)
    found["runs"] = runs
    return found


def instructions(context, simulator, requests, runs):
    """Instructions of one run of the client, all threads, by callgrind."""
    context.progress.step(f"{requests:,} pushes under callgrind")
    program = context.once("stripped", lambda: stripped(context))
    run = Measured(
        ["valgrind", "--tool=callgrind", "--vgdb=no", f"--callgrind-out-file={context.file('callgrind.out')}", program, "http2",
         "--port", str(simulator.apns_port), "--ca", simulator.ca, "--requests", str(requests)],
        timeout=150,
    )
    count = int(re.search(r"Collected : (\d+)", run.output).group(1))
    runs.append({"requests": requests, "instructions": count})
    return count


def stripped(context):
    # valgrind stumbles over newer debug information than it knows.
    if not shutil.which("strip"):
        return context.benchmarks
    name = os.path.join(context.directory, "PealBenchmarks")
    subprocess.run(["strip", "-o", name, context.benchmarks], check=True, timeout=60)
    return name


def worker_allocations(context, simulator):
    """Allocations per recipient of a worker that counts them, own code and all, between two campaigns' ends."""
    size = context.pick(200_000, 100_000)
    campaigns = context.campaigns
    slug = campaigns.app(size, simulator)
    counts = context.file("allocations")
    with open(counts, "wb") as output:
        worker = context.start_worker(campaigns.database, simulator.ca, program=[context.benchmarks], stdout=output)
    try:
        context.progress.step("allocations of the whole worker")
        # Arrays and buffers grow to their size in the first campaign.
        campaigns.run(slug, size, [worker], simulator)
        before = asked(worker, counts, 1)
        campaigns.run(slug, size, [worker], simulator)
        after = asked(worker, counts, 2)
    finally:
        worker.stop()
    return tuple((y - x) / size for x, y in zip(before, after))


def asked(worker, file, lines):
    """The worker's counts so far: own code, all."""
    os.kill(worker.pid, signal.SIGUSR1)
    deadline = time.monotonic() + 10
    while True:
        with open(file) as text:
            found = text.read().splitlines()
        if len(found) >= lines:
            return tuple(int(word) for word in found[lines - 1].split())
        worker.check()
        if time.monotonic() > deadline:
            raise TimeoutError("the worker did not say how much it allocated")
        time.sleep(0.02)
