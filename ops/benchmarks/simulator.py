"""The provider simulator as a process."""

import os
import re
import time

from .process import Process, tail


class Simulator:
    def __init__(self, peal, directory, name, options=(), cpus=None):
        self.directory = os.path.join(directory, name)
        os.makedirs(self.directory)
        self.log = os.path.join(self.directory, "log")
        self.process = Process(
            [peal, "simulate", "--directory", self.directory, "--write-credentials", self.directory, *options],
            self.log, cpus=cpus,
        )
        deadline = time.monotonic() + 30
        while "credentials " not in self._text():
            self.process.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the simulator did not start: {tail(self.log)}")
            time.sleep(0.02)
        self.ca = os.path.join(self.directory, "ca.pem")
        self.key_id = self._says("apns key id")
        self.team_id = self._says("apns team id")
        self.apns = self._says("apns-production")
        self.fcm = self._says("fcm")
        self.apns_port = int(self.apns.rpartition(":")[2])

    def _text(self):
        with open(self.log) as log:
            return log.read()

    def _says(self, name):
        for line in self._text().splitlines():
            if line.startswith(name) and line[len(name):].startswith(" "):
                return line.split()[-1]
        raise RuntimeError(f"the simulator did not print '{name}': {tail(self.log)}")

    def cpu(self):
        return self.process.cpu()

    def stop(self):
        self.process.stop(patience=10)

    def requests(self):
        """How many it answered; after `stop`."""
        found = re.search(r"^requests\s+([\d,]+)", self._text(), re.MULTILINE)
        return int(found.group(1).replace(",", "")) if found else None

    def connections(self):
        """How many were opened; after `stop`."""
        found = re.search(r"^connections\s+([\d,]+)", self._text(), re.MULTILINE)
        return int(found.group(1).replace(",", "")) if found else None
