"""One line on a terminal that says what is going on; plain lines where nobody looks."""

import sys
import time


class Progress:
    def __init__(self):
        self.is_terminal = sys.stderr.isatty()
        self.figure = ""
        self.started = time.monotonic()
        self._shown = 0.0

    def begin(self, figure, number, total):
        self.figure = f"[{number}/{total}] {figure}"
        self.step("")

    def step(self, text):
        """A new piece of work."""
        self._shown = 0.0
        if self.is_terminal:
            self.update(text)
        else:
            print(self._line(text), file=sys.stderr, flush=True)

    def update(self, text):
        """How far it is; at most ten times a second, and only on a terminal."""
        now = time.monotonic()
        if self.is_terminal and now - self._shown >= 0.1:
            self._shown = now
            print(f"\r\033[K{self._line(text)[:150]}", end="", file=sys.stderr, flush=True)

    def done(self):
        if self.is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def note(self, text):
        self.done()
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def _line(self, text):
        elapsed = int(time.monotonic() - self.started)
        return f"{elapsed // 60:2}:{elapsed % 60:02} {self.figure}{': ' if text else ''}{text}"
