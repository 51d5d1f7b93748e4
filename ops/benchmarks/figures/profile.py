"""Where the worker's CPU goes, by part: samples of perf during a campaign, sorted by thread, library and function."""

import collections
import shutil
import signal
import subprocess
import time

from ..process import Process, tail
from ..report import Figure

# The first part whose rule matches a sample has it. A rule: text in the thread's name, in the library's, in the
# function's; the loop of the client is the thread that is named after its lane.
LOOP = "peal-campaign"
PARTS = [
    ("parse: answers, HPACK in", "", "libnghttp2", ("",)),
    ("parse: answers, HPACK in", LOOP, "", (
        "SessionC7consume", "SessionC11handleBlock", "SessionC9endAnswer", "FrameReader", "AnswerBlock", "PlainBlock",
    )),
    ("TLS (OpenSSL)", "", "libcrypto", ("",)),
    ("TLS (OpenSSL)", "", "libssl", ("",)),
    ("kernel: sockets of the client", LOOP, "[kernel", ("",)),
    ("HPACK out and frames", LOOP, "", (
        "SessionC4open", "HeaderTemplate", "HeaderEncoder", "HeaderTable", "SessionC8sendBody", "SessionC8copyBody",
    )),
    ("client: streams, pools, answers handed over", LOOP, "", ("",)),
    ("kernel: sockets of the database, wake-ups", "", "[kernel", ("",)),
    ("rows from libpq", "", "libpq", ("",)),
    ("rows from libpq", "", "", ("8Postgres0A4Rows", "10RecipientsV")),
    ("render: path, apns-id, checks", "", "", (
        "14RequestBuilder", "19RequestBatchBuilder", "9FieldText", "9UUIDValueV10appendText", "9MessageID",
    )),
    ("settle: answers to outcomes", "", "", (
        "10LaneWorker", "9BatchInHand", "10ResultRows", "isSpelt", "6BitmapV", "15CompletionInbox",
    )),
    ("COPY: results to bytes", "", "", ("CopyBuffer", "7Flusher", "9FlushPlan")),
    ("Swift runtime and libc outside the client", "", "", ("",)),
]


def measure(context):
    size = context.pick(1_000_000, 100_000)
    title = "  worker CPU per recipient:"
    if not shutil.which("perf"):
        return [Figure(f"{title} by part", None, "µs", note="perf is not installed (Debian package linux-perf)")]
    campaigns = context.campaigns
    simulator = context.quick_simulator
    slug = campaigns.app(size, simulator)
    samples = context.file("perf.data")
    with context.worker(campaigns.database, simulator.ca) as worker:
        campaigns.warm_up(slug)
        context.progress.step(f"campaign to {size:,} under perf")
        perf = Process(
            ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-p", str(worker.pid), "-o", samples],
            context.file("perf.log"),
        )
        try:
            time.sleep(1)
            if perf.popen.poll() is not None:
                return [Figure(f"{title} by part", None, "µs", note=f"perf ended by itself: {tail(perf.log)}")]
            run = campaigns.run(slug, size, [worker], simulator)
        finally:
            perf.stop((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
    counts = by_part(samples)
    total = sum(counts.values())
    if not total:
        return [Figure(f"{title} by part", None, "µs", note="perf report found no samples")]
    if not any(part.startswith("kernel") for part in counts):
        # Its share would be spread over the others.
        return [Figure(f"{title} by part", None, "µs", note="perf sees nothing of the kernel here: run as root, or lower "
                       "kernel.perf_event_paranoid")]
    cost = run.cpu_us("worker")
    return [
        Figure(f"{title} {part}", cost * count / total, "µs", runs=[{"samples": count, "of": total}],
               settings={"tool": "perf, cpu-clock at 1,999 Hz", "recipients": size})
        for part, count in counts.most_common()
    ]


def by_part(samples):
    report = subprocess.run(
        ["perf", "report", "-i", samples, "--stdio", "-q", "--no-children", "-g", "none", "-n", "--sort",
         "comm,dso,symbol", "-t", ";"],
        capture_output=True, text=True, errors="replace", timeout=60, stdin=subprocess.DEVNULL,
    ).stdout
    counts = collections.Counter()
    for line in report.splitlines():
        words = [word.strip() for word in line.split(";")]
        if len(words) < 5 or not words[1].isdigit():
            continue
        count, thread, library, function = int(words[1]), words[2], words[3], words[4]
        for part, in_thread, in_library, in_function in PARTS:
            if in_thread in thread and in_library in library and any(text in function for text in in_function):
                counts[part] += count
                break
    return counts
