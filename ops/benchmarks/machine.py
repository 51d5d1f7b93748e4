"""What the figures were measured on and with."""

import hashlib
import os
import platform
import re
import subprocess

from .cluster import binaries


def machine(load_before):
    with open("/proc/cpuinfo") as info:
        model = re.search(r"model name\s*:\s*(.*)", info.read())
    with open("/proc/meminfo") as info:
        memory = int(re.search(r"MemTotal:\s*(\d+)", info.read()).group(1)) * 1024
    return {
        "cpu": model.group(1) if model else platform.machine(),
        "cores": os.cpu_count(),
        "cores_available": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "kernel": platform.release(),
        "system": _os_release(),
        "load_before": load_before,
    }


def versions(root, peal):
    with open(peal, "rb") as program:
        digest = hashlib.file_digest(program, "sha256").hexdigest()
    return {
        "source": _first_line(["git", "-c", f"safe.directory={root}", "-C", root, "describe", "--always", "--dirty"]),
        "peal_sha256": digest,
        "swift": _match(["swift", "--version"], r"Swift version (\S+)"),
        "postgresql": _match([f"{binaries()}/postgres", "--version"], r"PostgreSQL\) (\S+)"),
        "h2load": _match(["h2load", "--version"], r"nghttp2/(\S+)"),
        "openssl": _match(["openssl", "version"], r"OpenSSL (\S+)"),
        "valgrind": _match(["valgrind", "--version"], r"valgrind-(\S+)"),
        "python": platform.python_version(),
    }


def _os_release():
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.system()


def _output(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
        return done.stdout + done.stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout.splitlines() or [None])[0]


def _match(command, pattern):
    found = re.search(pattern, _output(command))
    return found.group(1) if found else None
