"""What a run found: figures, as one table or as one JSON object."""

import dataclasses
import json
import shutil
import sys
import textwrap


@dataclasses.dataclass
class Bound:
    """What is promised: on the value itself or on its ratio to the yardstick, at most or at least."""

    limit: float
    of: str = "ratio"
    at_least: bool = False

    def holds(self, figure):
        measured = figure.ratio if self.of == "ratio" else figure.value
        if measured is None:
            return None
        return measured >= self.limit if self.at_least else measured <= self.limit

    def __str__(self):
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {number(self.limit)}" + (" ×" if self.of == "ratio" else "")


@dataclasses.dataclass
class Figure:
    """One line of the table. `value` is None where nothing was measured; `note` then says why.

    What was promised and could not be compared does not hold.
    """

    name: str
    value: float | None
    unit: str
    yardstick: float | None = None
    yardstick_name: str = ""
    bound: Bound | None = None
    # Further conditions that must hold, such as that every recipient has its outcome.
    conditions: dict = dataclasses.field(default_factory=dict)
    note: str = ""
    runs: list = dataclasses.field(default_factory=list)
    settings: dict = dataclasses.field(default_factory=dict)
    # The name by which ops/bench runs it, with others.
    group: str = ""

    @property
    def ratio(self):
        if self.value is None or not self.yardstick:
            return None
        return self.value / self.yardstick

    @property
    def holds(self):
        """Whether it holds; None where nothing was promised or measured."""
        if self.value is None and self.bound:
            return False
        if any(not met for met in self.conditions.values()):
            return False
        return bool(self.bound.holds(self)) if self.bound else None

    def as_json(self):
        return {
            "group": self.group,
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "yardstick": self.yardstick,
            "yardstick_name": self.yardstick_name,
            "ratio": self.ratio,
            "bound": str(self.bound) if self.bound else None,
            "bound_limit": self.bound.limit if self.bound else None,
            "bound_of": self.bound.of if self.bound else None,
            "holds": self.holds,
            "conditions": self.conditions,
            "note": self.note,
            "settings": self.settings,
            "runs": self.runs,
        }


def number(value):
    """Three digits that mean something, thousands grouped."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


def print_table(figures):
    heads = ("FIGURE", "VALUE", "UNIT", "YARDSTICK", "RATIO", "BOUND", "HOLDS")
    rows = []
    for figure in figures:
        yardstick = number(figure.yardstick) + (f" {figure.yardstick_name}" if figure.yardstick_name else "")
        holds = {True: "yes", False: "NO", None: "–"}[figure.holds]
        rows.append(
            (figure.name, number(figure.value), figure.unit, yardstick if figure.yardstick is not None else "–",
             number(figure.ratio), str(figure.bound or "–"), holds)
        )
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    width = max(60, shutil.get_terminal_size((140, 24)).columns if sys.stdout.isatty() else 140)
    print("  ".join(text.ljust(width_) for text, width_ in zip(heads, widths)).rstrip())
    group = None
    for figure, row in zip(figures, rows):
        if figure.group != group:
            group = figure.group
            print(f"[{group}]")
        print("  ".join(
            text.rjust(width_) if column in (1, 4, 5) else text.ljust(width_)
            for column, (text, width_) in enumerate(zip(row, widths))
        ).rstrip())
        failed = [name for name, met in figure.conditions.items() if not met]
        if figure.value is not None and figure.bound and not figure.bound.holds(figure):
            failed.append(f"{figure.bound}")
        note = "; ".join(filter(None, [*(f"not so: {name}" for name in failed), figure.note]))
        if note:
            print(textwrap.fill(note, width, initial_indent="    ", subsequent_indent="    "))


def print_json(machine, versions, settings, figures, stream=None):
    json.dump(
        {"machine": machine, "versions": versions, "settings": settings,
         "figures": [figure.as_json() for figure in figures]},
        stream or sys.stdout, indent=2, ensure_ascii=False,
    )
    print(file=stream or sys.stdout)
