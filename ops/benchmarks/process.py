"""Processes that the benchmark starts: their end, their CPU time, their memory."""

import ctypes
import os
import shutil
import signal
import subprocess
import time

_TICK = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _die_with_parent():
    # Whatever ends the benchmark, even kill -9, ends what it started.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Process:
    """One process in a session of its own, so that Ctrl-C reaches the benchmark alone, which then ends it in order."""

    def __init__(self, command, log, environment=None, cpus=None, stdin=subprocess.DEVNULL, stdout=None):
        if cpus is not None:
            command = pinned(command, cpus)
        self.name = os.path.basename(command[0])
        self.log = log
        with open(log, "ab") as errors:
            self.popen = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stdout if stdout is not None else errors,
                stderr=errors,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self.pid = self.popen.pid

    def stop(self, signals=(signal.SIGTERM, signal.SIGTERM, signal.SIGKILL), patience=30):
        """Asks it to end, more urgently each time that the patience (seconds) is over."""
        for number in signals:
            if self.popen.poll() is not None:
                return
            self.popen.send_signal(number)
            try:
                self.popen.wait(patience)
            except subprocess.TimeoutExpired:
                continue

    def kill(self):
        """As a crash would end it."""
        self.popen.kill()
        self.popen.wait(30)

    def wait(self, seconds):
        return self.popen.wait(seconds)

    def check(self):
        """Raises when it has ended by itself."""
        if self.popen.poll() is not None:
            raise RuntimeError(f"{self.name} ended with status {self.popen.returncode}: {tail(self.log)}")

    def cpu(self):
        """CPU seconds so far, user and system, of all its threads."""
        return thread_group_cpu(self.pid)

    def memory(self):
        """Resident memory in bytes."""
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0


class Measured:
    """A command run to its end: its output, wall time, and CPU time from the kernel's account of it."""

    def __init__(self, command, timeout, environment=None, cpus=None, cwd=None):
        if cpus is not None:
            command = pinned(command, cpus)
        start = time.monotonic()
        # A file and not a pipe, so that wait4 can be called before the output is read.
        with open(os.devnull, "rb") as nothing, _temporary() as output:
            popen = subprocess.Popen(
                command,
                stdin=nothing,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=cwd,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
            try:
                usage = _wait4(popen, start + timeout)
            except BaseException:
                popen.kill()
                popen.wait()
                raise
            self.seconds = time.monotonic() - start
            self.status = popen.returncode
            self.cpu = usage.ru_utime + usage.ru_stime
            output.seek(0)
            self.output = output.read().decode(errors="replace")
        if self.status != 0:
            raise RuntimeError(f"{command_name(command)} ended with status {self.status}: {self.output[-600:]}")


def _temporary():
    import tempfile

    return tempfile.TemporaryFile()


def _wait4(popen, deadline):
    while True:
        pid, status, usage = os.wait4(popen.pid, os.WNOHANG)
        if pid:
            popen.returncode = os.waitstatus_to_exitcode(status)
            return usage
        if time.monotonic() > deadline:
            raise TimeoutError(f"{command_name(popen.args)} did not end in time")
        time.sleep(0.005)


def command_name(command):
    words = [word for word in command if not word.startswith("-")]
    if os.path.basename(words[0]) == "taskset":
        words = words[2:]
    return os.path.basename(words[0])


def pinned(command, cpus):
    """The command, kept to these CPUs where the machine has more than one."""
    if len(os.sched_getaffinity(0)) < 2 or not shutil.which("taskset"):
        return command
    return ["taskset", "-c", ",".join(str(cpu) for cpu in cpus), *command]


def available_cpus():
    return sorted(os.sched_getaffinity(0))


def pin(pid, cpus):
    """Keeps all threads of a running process to these CPUs."""
    if len(available_cpus()) < 2:
        return
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            os.sched_setaffinity(int(task), cpus)
        except ProcessLookupError:
            pass


def thread_group_cpu(pid):
    """CPU seconds of a process, to the nanosecond, threads that ended included; 0 when it has ended itself."""
    try:
        # The kernel's name for the CPU clock of another process, as clock_getcpuclockid(3) makes it.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def reaped_children_cpu(pid):
    """CPU seconds of the children that a process has seen end."""
    fields = _stat(pid)
    return (int(fields[13]) + int(fields[14])) / _TICK


def children(pid):
    """The processes that a process started and that still run."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as listing:
            found += [int(word) for word in listing.read().split()]
    return found


def _stat(pid):
    # What stands after the name in brackets: field 3 of the manual page is index 0.
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()


def tail(path, lines=3):
    try:
        with open(path, errors="replace") as file:
            return " / ".join(line.strip() for line in file.readlines()[-lines:])
    except FileNotFoundError:
        return ""
