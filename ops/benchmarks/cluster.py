"""A private PostgreSQL: one server in a fresh directory on a Unix socket, and sessions on it through psql."""

import glob
import json
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

from .process import Process, children, reaped_children_cpu, tail, thread_group_cpu

# What psql says when the statements before are done.
_END = "~end~"

# Durable settings: fsync and synchronous_commit keep their defaults (on).
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "300",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "lz4",
    "autovacuum_naptime": "10s",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.max": "2000",
    "pg_stat_statements.track": "top",
    "timezone": "UTC",
    # From when a single push counts.
    "track_commit_timestamp": "on",
    # Statements and what they cost are logged where a figure asks for it.
    "logging_collector": "on",
    "log_filename": "postgres",
    "log_rotation_size": "0",
}


def binaries():
    """The directory with the newest PostgreSQL server of this machine."""
    found = glob.glob("/usr/lib/postgresql/*/bin/postgres")
    found.sort(key=lambda path: int(re.search(r"/(\d+)/bin", path).group(1)))
    if not found:
        raise RuntimeError("no PostgreSQL server under /usr/lib/postgresql; install the Debian package postgresql")
    return os.path.dirname(found[-1])


class Cluster:
    def __init__(self, directory, settings=None):
        self.bin = binaries()
        self.directory = os.path.join(directory, "postgres")
        self.log = os.path.join(self.directory, "log")
        self.logs = os.path.join(self.directory, "logs")
        self.settings = {**SETTINGS, **(settings or {})}
        self._as_owner = []
        os.makedirs(self.directory, mode=0o755)
        self.user = pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            # PostgreSQL refuses root.
            owner = pwd.getpwnam("postgres")
            self.user = "postgres"
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
            self._as_owner = [
                "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=INT",
            ]
        self._run("initdb", "-D", f"{self.directory}/data", "-A", "trust", "-U", self.user, "-E", "UTF8",
                  "--locale=C.UTF-8", "--no-sync")
        self.process = None
        self.start()

    def _run(self, program, *arguments):
        done = subprocess.run(
            [*self._as_owner, f"{self.bin}/{program}", *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/", timeout=120, start_new_session=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr.strip()[-600:]}")

    def start(self):
        options = []
        for name, value in {**self.settings, "unix_socket_directories": self.directory,
                            "log_directory": self.logs}.items():
            options += ["-c", f"{name}={value}"]
        if not os.path.exists(self.log):
            open(self.log, "ab").close()
        self.process = Process(
            [*self._as_owner, f"{self.bin}/postgres", "-D", f"{self.directory}/data", *options], self.log
        )
        deadline = time.monotonic() + 60
        while subprocess.run(
            [f"{self.bin}/pg_isready", "-q", "-h", self.directory], stdin=subprocess.DEVNULL
        ).returncode != 0:
            self.process.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL did not start within a minute: {tail(self.log)}")
            time.sleep(0.05)

    def stop(self):
        # Fast shutdown; at once if that takes too long, for nothing here is worth keeping.
        self.process.stop((signal.SIGINT, signal.SIGQUIT, signal.SIGKILL), patience=30)

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database):
        return f"postgresql:///{database}?host={self.directory}&user={self.user}"

    def session(self, database):
        return Session(self, database)

    def sql(self, database, text, timeout=600):
        """Runs SQL in a session of its own and returns its rows."""
        with self.session(database) as session:
            return session.rows(text)

    def upkeep_cpu(self):
        """CPU seconds of each worker of autovacuum that runs now, by its process id."""
        found = {}
        for pid in children(self.process.pid):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as title:
                    if title.read().startswith(b"postgres: autovacuum worker"):
                        found[pid] = thread_group_cpu(pid)
            except OSError:
                continue
        return found

    def cpu(self):
        """CPU seconds of the whole server so far, backends and background alike."""
        pid = self.process.pid
        return reaped_children_cpu(pid) + thread_group_cpu(pid) + sum(thread_group_cpu(child) for child in children(pid))


class Session:
    """A psql that stays open: statements go in, rows come out, one connection all the while."""

    def __init__(self, cluster, database):
        self.popen = subprocess.Popen(
            [f"{cluster.bin}/psql", "-X", "-q", "-A", "-t", "-F", "\t", "-P", "pager=off", cluster.url(database)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
            start_new_session=True, env={**os.environ, "PGOPTIONS": "", "PGAPPNAME": "ops/bench"},
        )
        self.backend = int(self.rows("SELECT pg_backend_pid()")[0][0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.popen.poll() is None:
            try:
                self.popen.stdin.close()
                self.popen.wait(5)
            except (OSError, subprocess.TimeoutExpired):
                self.popen.kill()
                self.popen.wait()
        self.popen.stdout.close()
        # Its backend ends a moment later; what it used would be counted as somebody else's.
        deadline = time.monotonic() + 5
        while os.path.exists(f"/proc/{self.backend}") and time.monotonic() < deadline:
            time.sleep(0.002)

    def send(self, text):
        """Hands statements over without waiting; `receive` waits."""
        self.popen.stdin.write(f"{text};\n\\echo {_END}\n")
        self.popen.stdin.flush()

    def receive(self):
        rows = []
        error = None
        while True:
            line = self.popen.stdout.readline()
            if not line:
                raise RuntimeError(f"psql ended: {error or rows[-1:]}")
            line = line.rstrip("\n")
            if line == _END:
                break
            if re.match(r"(psql:.*: )?(ERROR|FATAL|PANIC):", line):
                error = line
            elif not re.match(r"(NOTICE|WARNING|DETAIL|HINT|LINE|CONTEXT|LOCATION):?", line):
                rows.append(line.split("\t"))
        if error:
            raise RuntimeError(error)
        return rows

    def rows(self, text):
        self.send(text)
        return self.receive()

    def value(self, text):
        rows = self.rows(text)
        return rows[0][0] if rows else None

    def cpu(self):
        """CPU seconds of this session's backend."""
        return thread_group_cpu(self.backend)


class Caller:
    """A connection that sends one statement at a time and notes when its answer is there: with no psql in between, whose
    hand-over would be counted as the server's."""

    def __init__(self, cluster, database):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(60)
        self.socket.connect(os.path.join(cluster.directory, ".s.PGSQL.5432"))
        words = b"".join(
            word.encode() + b"\0"
            for word in ("user", cluster.user, "database", database, "application_name", "ops/bench", "")
        )
        self.socket.sendall(struct.pack("!ii", len(words) + 8, 196608) + words)
        self.buffer = b""
        self._answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def call(self, statement):
        """The first column of the first row, and when the statement was sent and answered, in seconds since 1970."""
        text = statement.encode() + b"\0"
        sent = time.time()
        self.socket.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)
        value = self._answer()
        return value, sent, self.received

    def _answer(self):
        """Reads up to the message that says the server is ready for the next statement."""
        value = error = None
        while True:
            while len(self.buffer) < 5 or len(self.buffer) < 1 + struct.unpack("!i", self.buffer[1:5])[0]:
                part = self.socket.recv(65_536)
                self.received = time.time()
                if not part:
                    raise RuntimeError("the server closed the connection")
                self.buffer += part
            kind, end = self.buffer[:1], 1 + struct.unpack("!i", self.buffer[1:5])[0]
            body, self.buffer = self.buffer[5:end], self.buffer[end:]
            if kind == b"D" and value is None:
                value = body[6:6 + struct.unpack("!i", body[2:6])[0]].decode()
            elif kind == b"E":
                error = body.replace(b"\0", b" ").decode(errors="replace")
            elif kind == b"Z":
                if error:
                    raise RuntimeError(error)
                return value


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def as_json(value):
    return quoted(json.dumps(value, ensure_ascii=False))
