"""CPU of the HTTP/2 client per push, beside h2load on the same request; and the simulator by itself."""

from ..campaign import median
from ..h2load import H2Load, Request
from ..process import Measured, available_cpus, pin
from ..report import Bound, Figure


def measure(context):
    pairs = context.pick(5, 3)
    requests = context.pick(300_000, 100_000)
    simulator = context.quick_simulator
    request = Request(context.benchmarks, context.directory)
    cpus = available_cpus()
    client, server = [cpus[0]], [cpus[-1]]
    runs = []
    pin(simulator.process.pid, server)
    try:
        for number in range(pairs):
            context.progress.step(f"pair {number + 1} of {pairs}: h2load, then peal")
            h2load = H2Load(request, simulator, requests, cpus=client)
            peal = PealClient(context, simulator, requests, cpus=client)
            runs.append({
                "h2load_cpu_us": h2load.cpu_us, "peal_cpu_us": peal.cpu_us, "ratio": peal.cpu_us / h2load.cpu_us,
                "h2load_rate": h2load.rate, "peal_rate": peal.rate,
                "simulator_cpu_us_under_h2load": h2load.server_cpu_us,
                "simulator_cpu_us_under_peal": peal.server_cpu_us,
            })
    finally:
        pin(simulator.process.pid, cpus)
    ratios = sorted(run["ratio"] for run in runs)
    settings = {
        "requests": requests, "pairs": pairs, "connections": 1, "streams": 1000, "body_bytes": len(request.body),
        "headers": [header.partition(":")[0] for header in request.headers], "client_cpus": client,
        "server_cpus": server,
    }
    peal_cpu = median([run["peal_cpu_us"] for run in runs])
    server_cpu = median([run["simulator_cpu_us_under_h2load"] for run in runs])
    h2load_cpu = median([run["h2load_cpu_us"] for run in runs])
    return [
        Figure(
            "client CPU per push", peal_cpu, "µs", h2load_cpu, "µs h2load", Bound(0.7), settings=settings, runs=runs,
            note=f"the pairs' ratios {ratios[0]:.2f} to {ratios[-1]:.2f}; simulator beside it "
                 f"{median([run['simulator_cpu_us_under_peal'] for run in runs]):.2f} µs",
        ),
        Figure(
            "simulator alone (h2load), per second", median([run["h2load_rate"] for run in runs]), "req/s",
            settings=settings, runs=runs,
            note=f"its own CPU {server_cpu:.2f} µs a request against {h2load_cpu:.2f} of h2load: "
                 + ("the client is the limit, not the simulator" if server_cpu < h2load_cpu
                    else "the simulator is the limit"),
        ),
    ]


class PealClient:
    """One run of `PealBenchmarks http2`; CPU is the process's, start and handshake included, as h2load's is."""

    def __init__(self, context, simulator, requests, connections=1, cpus=None, options=()):
        server = simulator.cpu()
        run = Measured(
            [context.benchmarks, "http2", "--port", str(simulator.apns_port), "--ca", simulator.ca,
             "--requests", str(requests), "--connections", str(connections), *options],
            timeout=120, cpus=cpus,
        )
        self.server_cpu_us = (simulator.cpu() - server) / requests * 1e6
        words = run.output.split()
        values = dict(zip(words[::2], words[1::2]))
        self.cpu_us = run.cpu / requests * 1e6
        self.rate = requests / float(values["seconds"])
        self.own_allocations = int(values["own_allocations"])
        self.allocations = int(values["allocations"])
