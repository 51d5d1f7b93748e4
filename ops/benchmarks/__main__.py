"""Command line of ops/bench."""

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback

from . import catalogue, gates, machine, report
from .cluster import SETTINGS
from .context import Context
from .progress import Progress
from .report import Figure


class DeadlinePassed(Exception):
    pass


def main():
    options = parse()
    # Whoever runs this may have a peal and a PostgreSQL of their own.
    for name in [name for name in os.environ if name.startswith(("PEAL_", "PG"))]:
        del os.environ[name]
    progress = Progress()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    signal.signal(signal.SIGALRM, _deadline)
    context = Context(options, progress)
    started, load_before = time.time(), os.getloadavg()[0]
    try:
        if options.names == ["gates"]:
            progress.begin("gates", 1, 1)
            return gates.check(context, update=options.update)
        groups = [group for group in catalogue.GROUPS if not options.names or group.name in options.names]
        figures = []
        for number, group in enumerate(groups):
            progress.begin(group.name, number + 1, len(groups))
            for figure in measured(context, group):
                figure.group = group.name
                figures.append(figure)
    finally:
        # Ctrl-C while cleaning up would leave servers behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.alarm(0)
        progress.begin("stopping what was started", 1, 1)
        context.close()
        progress.done()
    settings = {
        "quick": options.quick, "five_million": options.five_million,
        "postgresql": SETTINGS, "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started),
    }
    if options.json:
        report.print_json(machine.machine(load_before), machine.versions(options.root, context.peal), settings, figures)
    else:
        report.print_table(figures)
        print(f"\n{sum(f.holds is True for f in figures)} hold, {sum(f.holds is False for f in figures)} do not, "
              f"{sum(f.holds is None for f in figures)} promise nothing; "
              f"{sum(f.value is None for f in figures)} could not be measured. {settings['seconds']} s. With --json: every run, machine, versions, settings.")
    return 0


def measured(context, group):
    """The group's figures; one that says why where they could not be measured."""
    limit = group.limit * (3 if context.options.five_million else 1) + (context.options.snapshot_seconds or 600)
    signal.alarm(limit)
    try:
        return group.measure(context)
    except DeadlinePassed:
        return [failed(group, f"given up after {limit} s")]
    except Exception as error:
        if context.options.verbose:
            context.progress.done()
            traceback.print_exc()
        return [failed(group, f"could not be measured: {error}")]
    finally:
        signal.alarm(0)


def failed(group, reason):
    return Figure(
        group.name, None, "", conditions={"measured": False}, note=" ".join(reason.split()),
    )


def _interrupt(number, _frame):
    raise SystemExit(128 + number)


def _deadline(_number, _frame):
    raise DeadlinePassed()


def parse():
    names = "\n".join(f"  {group.name:<14}{group.summary}" for group in catalogue.GROUPS)
    parser = argparse.ArgumentParser(
        prog="ops/bench", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measures peal beside its yardsticks, on a PostgreSQL and a provider simulator of its own, and "
                    "prints one table.\nA bound is what peal promises; a figure that does not keep it says NO. The exit "
                    "status is 0 all the same.",
        epilog=f"groups of figures:\n{names}\n  gates         only checks instructions and allocations against "
               "ops/hot-path-thresholds.json; exit status 1 when they left it",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="run only these groups (default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--quick", action="store_true", help="smaller runs, under three minutes")
    parser.add_argument("--five-million", action="store_true", help="also a campaign of 5,000,000 recipients")
    parser.add_argument("--snapshot-seconds", type=int, metavar="S", default=None,
                        help="how long the old snapshot is held for the claim (default: the promised 600, less where "
                             "the whole run would take more than 19 minutes; quick 6)")
    parser.add_argument("--directory", metavar="DIR", help="where the servers keep their data (default: TMPDIR, /tmp)")
    parser.add_argument("--update", action="store_true", help="gates: write what was measured as the new thresholds")
    parser.add_argument("--verbose", action="store_true", help="show where a figure failed")
    parser.add_argument("--peal", metavar="FILE", default="", help="use this peal instead of building one")
    parser.add_argument("--benchmarks", metavar="FILE", default="",
                        help="use this PealBenchmarks instead of building one")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    known = [group.name for group in catalogue.GROUPS] + ["gates"]
    for name in options.names:
        if name not in known:
            parser.error(f"there is no group '{name}'; known: {', '.join(known)}")
    if "gates" in options.names and options.names != ["gates"]:
        parser.error("gates runs alone")
    if "gates" in options.names and (options.json or options.quick):
        parser.error("gates prints lines of its own, and is as long as it is: without --json and --quick")
    if options.update and options.names != ["gates"]:
        parser.error("--update is for gates")
    if options.snapshot_seconds is not None and not 5 <= options.snapshot_seconds <= 3600:
        parser.error("--snapshot-seconds takes 5 to 3600")
    directory = options.directory or tempfile.gettempdir()
    if not os.path.isdir(directory):
        parser.error(f"--directory: there is no directory {directory}")
    # Sockets of the server stand below it, and their names are short by nature.
    if len(os.path.abspath(directory)) > 60:
        parser.error(f"the path {directory} is too long for Unix sockets below it; give a shorter one by --directory")
    if options.check:
        sys.exit(0)
    return options


sys.exit(main())
