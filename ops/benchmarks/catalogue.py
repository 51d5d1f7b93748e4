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
    Group("campaign", "campaign_rate", "campaigns end to end, growth of their cost, memory of the worker", 900),
]
