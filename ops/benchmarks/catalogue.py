"""All groups of figures, in the order in which they run."""

import dataclasses
import importlib


@dataclasses.dataclass
class Group:
    name: str
    module: str
    summary: str
    # Seconds after which it is given up.
    limit: int = 300

    def measure(self, context):
        return importlib.import_module(f".figures.{self.module}", __package__).measure(context)


GROUPS = [
    Group("client", "client_cpu", "CPU of the HTTP/2 client per push beside h2load, and the simulator by itself"),
    Group("hot-path", "hot_path", "instructions and allocations per push, and their thresholds"),
    Group("campaign", "campaign_rate", "campaigns end to end, growth of their cost, memory of the worker", 900),
    Group("database", "database_cpu", "CPU of PostgreSQL per recipient, by statement"),
    Group("profile", "profile", "where the worker's CPU goes, by part (perf)"),
    Group("latency", "latency", "single pushes, idle and beside a campaign, in the lanes transactional and call"),
    Group("fan-out", "fan_out", "freezing an audience, with no one to send it"),
    Group("round-trip", "round_trip", "rates with a provider that is 50 and 300 ms away"),
    Group("processes", "processes", "two, four and eight worker processes"),
    Group("recovery", "recovery", "kill -9 of the worker in the middle of a campaign"),
    Group("peers", "peers", "aioapns and httpx on the same server, pgqueuer on the same database"),
    # The last, since its snapshot is held for what is left of the time.
    Group("claim", "claim", "claim time beside many results, delayed rows, apps and an old snapshot", 600),
]
