"""h2load: the yardstick of HTTP/2 clients, on the same request as peal makes."""

import hashlib
import os
import re
import subprocess

from .process import Measured


class Request:
    """Headers, body and 10,000 paths, as PealBenchmarks describes its own request."""

    def __init__(self, benchmarks, directory):
        text = subprocess.run(
            [benchmarks, "http2", "--describe"], capture_output=True, text=True, timeout=30, check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
        self.headers = [line.removeprefix("header ") for line in text.splitlines() if line.startswith("header ")]
        self.body = re.search(r"^body (.*)$", text, re.MULTILINE).group(1)
        self.body_file = os.path.join(directory, "body.json")
        with open(self.body_file, "w") as file:
            file.write(self.body)
        self.directory = directory

    def paths(self, origin):
        """A file of URIs; h2load takes the host from the first and the paths from all."""
        name = os.path.join(self.directory, "uris")
        with open(name, "w") as file:
            for number in range(10_000):
                file.write(f"{origin}/3/device/{hashlib.sha256(str(number).encode()).hexdigest()}\n")
        return name


class H2Load:
    """One run. `rate` in requests a second, `cpu_us` in µs of client CPU a request."""

    def __init__(self, request, simulator, requests, connections=1, streams=1000, cpus=None):
        # The cipher that peal and the simulator agree on.
        command = ["h2load", "-n", str(requests), "-c", str(connections), "-m", str(streams), "-t", "1",
                   "--tls13-ciphers=TLS_AES_256_GCM_SHA384",
                   "-d", request.body_file, "-i", request.paths(simulator.apns)]
        for header in request.headers:
            command += ["-H", header]
        server = simulator.cpu()
        run = Measured(command, timeout=120, cpus=cpus)
        self.server_cpu_us = (simulator.cpu() - server) / requests * 1e6
        found = re.search(r"finished in ([\d.]+)(us|ms|s), ([\d.]+) req/s", run.output)
        succeeded = re.search(r"(\d+) succeeded", run.output)
        if not found or not succeeded or int(succeeded.group(1)) != requests:
            raise RuntimeError(f"h2load did not succeed: {run.output[-600:]}")
        self.rate = float(found.group(3))
        self.cpu_us = run.cpu / requests * 1e6
