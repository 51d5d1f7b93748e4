"""Two, four and eight worker processes on one campaign."""

import contextlib

from ..campaign import median
from ..report import Figure


def measure(context):
    size = context.pick(1_000_000, 100_000)
    campaigns = context.campaigns
    simulator = context.quick_simulator
    single = campaigns.measured(size, 2)
    yardstick = median([run.rate for run in single])
    slug = campaigns.app(size, simulator)
    figures = []
    for count in (2, 4, 8):
        context.progress.step(f"campaign to {size:,} by {count} worker processes")
        with contextlib.ExitStack() as stack:
            workers = [
                stack.enter_context(context.worker(campaigns.database, simulator.ca)) for _ in range(count)
            ]
            campaigns.warm_up(slug)
            runs = [campaigns.run(slug, size, workers, simulator) for _ in range(context.pick(3, 2))]
        figures.append(Figure(
            f"campaign of {size:,} by {count} processes", median([run.rate for run in runs]), "recipients/s", yardstick,
            "one process", conditions={"every recipient accepted and accounted for": all(run.is_complete for run in runs)},
            note=f"CPU a recipient {median([run.peal_cpu_us for run in runs]):.2f} µs against "
                 f"{median([one.peal_cpu_us for one in single]):.2f} of one process",
            settings={"recipients": size, "processes": count},
            runs=[run.as_json() for run in runs] + [{"by_one_process": [run.rate for run in single]}],
        ))
    return figures
