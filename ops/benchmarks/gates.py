"""The gates of continuous integration: figures that repeat, held in both directions by a file."""

import json
import os

from .figures.hot_path import THRESHOLDS, per_push, thresholds

MEASURED = ("instructions", "client_own_allocations", "worker_own_allocations")


def check(context, update):
    """Compares with the thresholds, or writes them. Returns the exit status."""
    context.quick = True
    held = thresholds(context.root)
    found = per_push(context)
    context.progress.done()
    failed = False
    for name in MEASURED:
        value = found[name]
        if name not in held:
            raise SystemExit(f"{THRESHOLDS} holds nothing for {name}")
        threshold = held[name]
        expected, slack = threshold["expected"], threshold["slack"]
        verdict = "holds"
        if value > expected + slack:
            verdict = "MORE than the threshold allows: find out why, or accept it with ops/bench gates --update"
        elif value < expected - slack:
            verdict = "LESS than the threshold expects: hold the gain with ops/bench gates --update"
        failed = failed or verdict != "holds"
        print(f"{name:<26}{value:>12,.3f}  expected {expected:,} ± {slack:,}: {verdict}")
        if update:
            threshold["expected"] = round(value) if value >= 100 else round(value, 3)
            threshold["slack"] = round(value / 33) if value >= 100 else threshold["slack"]
    if update:
        with open(os.path.join(context.root, THRESHOLDS), "w") as file:
            json.dump(held, file, indent=2)
            file.write("\n")
        print(f"written to {THRESHOLDS}")
        return 0
    return 1 if failed else 0
