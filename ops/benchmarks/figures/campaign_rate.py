"""Campaigns end to end, from the INSERT of the job to the last durable result; their growth, and the worker's memory."""

from ..campaign import median
from ..h2load import H2Load, Request
from ..process import available_cpus
from ..report import Bound, Figure

MEBIBYTE = 1 << 20


def sizes(context):
    """Recipients and runs of each campaign."""
    if context.quick:
        return [(10_000, 3), (100_000, 2)]
    large = [(1_000_000, 3)]
    if context.options.five_million:
        large.append((5_000_000, 1))
    return [(10_000, 5), (100_000, 3), *large]


def measure(context):
    figures = []
    simulator = context.quick_simulator
    request = Request(context.benchmarks, context.directory)
    for size, times in sizes(context):
        runs = context.campaigns.measured(size, times)
        context.progress.step("h2load against the same simulator, unpinned, with as many connections")
        yardsticks = [H2Load(request, simulator, max(100_000, min(size, 500_000)), connections=4) for _ in range(3)]
        yardstick = median([run.rate for run in yardsticks])
        best = median([run.rate for run in runs])
        figures.append(Figure(
            f"campaign of {size:,}", best, "recipients/s", yardstick, "h2load req/s",
            Bound(0.9, at_least=True) if size >= 1_000_000 else None,
            conditions={
                "every recipient accepted and accounted for": all(run.is_complete for run in runs),
                **({"100,000 a second": best >= 100_000} if size >= 1_000_000 else {}),
            },
            note=_shares(runs),
            runs=[run.as_json() for run in runs] + [{"h2load_rate": run.rate, "h2load_cpu_us": run.cpu_us,
                                                     "simulator_cpu_us": run.server_cpu_us} for run in yardsticks],
        ))
    figures.append(_growth(context))
    figures.append(_memory(context))
    return figures


def _shares(runs):
    shares = [median([run.cpu_us(what) for run in runs]) for what in ("worker", "database", "simulator")]
    cores = len(available_cpus())
    return "CPU a recipient: worker {:.2f} + database {:.2f} + simulator {:.2f} µs; all {} cores at full use would bear {:,.0f} a second".format(
        *shares, cores, cores / sum(shares) * 1e6
    )


def _growth(context):
    measured = {size: context.campaigns.measured(size, times) for size, times in sizes(context)}
    costs = {size: median([run.own_cpu_us for run in runs]) for size, runs in measured.items()}
    large = max(costs)
    least = min((size for size in costs if size < large), key=costs.get)
    return Figure(
        f"CPU per recipient, {large:,} against {least:,}", costs[large], "µs", costs[least], "µs", Bound(1.15),
        note="worker and database together but for autovacuum, which comes after a short campaign and into a long one "
             "(see database), against the cheapest of the smaller ones; "
             + ", ".join(f"{size:,}: {cost:.2f}" for size, cost in costs.items())
             + "; the promise reaches to 5,000,000 (--five-million)",
        runs=[{"recipients": size, "cpu_us": [run.own_cpu_us for run in runs],
               "upkeep_cpu_us": [run.cpu_us("upkeep") for run in runs]} for size, runs in measured.items()],
    )


# Shorter runs are over before the arrays of a worker have grown to their size.
LEAST_SAMPLES = 40


def _memory(context):
    size, times = sizes(context)[-1]
    samples = [run.memory for run in context.campaigns.measured(size, times)]
    peak = max(size_ for run in samples for _, size_ in run) / MEBIBYTE
    # Flat: the last quarter of the run holds no more than the second, but for a tenth.
    growths = []
    for run in samples:
        sizes_ = [size_ for _, size_ in run]
        quarter = len(sizes_) // 4
        if len(sizes_) >= LEAST_SAMPLES:
            growths.append(median(sizes_[-quarter:]) / median(sizes_[quarter:2 * quarter]))
    name = f"memory of the worker, campaign of {size:,}"
    runs = [{"samples": run[:: max(1, len(run) // 200)]} for run in samples]
    if not growths:
        bound = Bound(64, of="value") if peak > 64 else None
        return Figure(name, peak, "MiB", bound=bound, runs=runs, note="peak resident; too short to say whether it is flat")
    growth = max(growths)
    return Figure(
        name, peak, "MiB", bound=Bound(64, of="value"), runs=runs,
        conditions={"flat (last quarter ≤ 1.1 × second)": growth <= 1.1},
        note=f"peak resident; last quarter of the run against the second: {growth:.2f} ×",
    )
