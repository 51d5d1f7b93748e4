"""What the figures share: options, binaries, one server, simulators, workers, and what was already measured."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time

from .campaign import Campaigns
from .cluster import Cluster
from .process import Process
from .simulator import Simulator

# A whole run ends within twenty minutes; a minute of them is for what follows the snapshot.
RUN_SECONDS = 19 * 60


class Context:
    def __init__(self, options, progress):
        self.options = options
        self.quick = options.quick
        self.root = options.root
        self.peal = os.path.abspath(options.peal)
        self.benchmarks = os.path.abspath(options.benchmarks)
        self.progress = progress
        self.started = time.monotonic()
        self.stack = contextlib.ExitStack()
        self.directory = tempfile.mkdtemp(prefix="peal-bench-", dir=options.directory)
        # The server may run as another user, who must be able to pass through.
        os.chmod(self.directory, 0o755)
        self.stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self._known = {}
        self._number = 0

    def close(self):
        self.stack.close()

    def once(self, name, make):
        """What `make` returned the first time that it was asked for under this name."""
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def pick(self, full, quick):
        return quick if self.quick else full

    def file(self, name):
        self._number += 1
        return os.path.join(self.directory, f"{self._number:02}-{name}")

    @property
    def snapshot_seconds(self):
        """How long an old snapshot is held from now on: ten minutes, and less where the run would not end in time."""
        if self.options.snapshot_seconds is not None:
            return self.options.snapshot_seconds
        left = RUN_SECONDS - (time.monotonic() - self.started)
        return 6 if self.quick else round(max(60, min(600, left)))

    # What runs beside the figures.

    @property
    def cluster(self):
        def make():
            self.progress.update("starting PostgreSQL")
            cluster = Cluster(self.directory)
            self.stack.callback(cluster.stop)
            return cluster

        return self.once("cluster", make)

    @property
    def campaigns(self):
        return self.once("campaigns", lambda: Campaigns(self, "peal"))

    @contextlib.contextmanager
    def simulator(self, *options):
        simulator = Simulator(self.peal, self.directory, f"simulator-{self._next()}", options)
        try:
            yield simulator
        finally:
            simulator.stop()

    @property
    def quick_simulator(self):
        """The simulator that checks nothing and answers at once; one for all figures that load it."""

        def make():
            simulator = Simulator(self.peal, self.directory, f"simulator-{self._next()}", ["--quick"])
            self.stack.callback(simulator.stop)
            return simulator

        return self.once("simulator", make)

    @contextlib.contextmanager
    def worker(self, database, ca, *options, program=None, environment=None):
        """A `peal worker` that works until the block ends."""
        process = self.start_worker(database, ca, *options, program=program, environment=environment)
        try:
            yield process
        finally:
            process.stop(patience=30)

    def start_worker(self, database, ca, *options, program=None, environment=None, stdout=None):
        return Process(
            [*(program or [self.peal]), "worker", *options], self.file("worker.log"),
            environment={**self.environment(database, ca), **(environment or {})}, stdout=stdout,
        )

    def environment(self, database, ca=None):
        return {
            "PEAL_DATABASE_URL": self.cluster.url(database),
            "PEAL_MASTER_KEY": "42" * 32,
            "PEAL_LOG_LEVEL": "warning",
            **({"PEAL_CA_FILE": ca} if ca else {}),
        }

    def run_peal(self, database, *words, ca=None):
        done = subprocess.run(
            [self.peal, *words], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
            start_new_session=True, env={**os.environ, **self.environment(database, ca)},
        )
        if done.returncode != 0:
            raise RuntimeError(f"peal {' '.join(words[:2])} failed: {done.stderr.strip()[-600:]}")
        return done.stdout

    def _next(self):
        self._number += 1
        return self._number
