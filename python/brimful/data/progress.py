"""How far an epoch is, on standard error.

In: batches as they are handed out. Out: one line that is written over at most five times a second on a terminal, and one line at the end.
"""

from __future__ import annotations

import sys
import time
from typing import Any

EVERY_SECONDS = 0.2


class Progress:
    """The line of one epoch."""

    def __init__(self, loader: Any, epoch: int, done: int) -> None:
        self.epoch, self.before, self.batches, self.rows = epoch, done, done, 0
        self.of = max(1, len(loader))
        self.began = time.monotonic()
        self.shown = 0.0
        self.terminal = sys.stderr.isatty()

    def batch(self, rows: int) -> None:
        """One more batch of so many rows."""
        self.batches += 1
        self.rows += rows
        now = time.monotonic()
        if self.terminal and now - self.shown >= EVERY_SECONDS:
            self.shown = now
            share = min(1.0, self.batches / self.of)
            left = (now - self.began) / max(1, self.batches - self.before) * max(0, self.of - self.batches)
            filled = int(share * 24)
            bar = "█" * filled + "░" * (24 - filled)
            self._write(f"epoch {self.epoch} {bar} {share:4.0%}  {self._rate(now)}  {_clock(left)} left")

    def end(self) -> None:
        """The last line of the epoch."""
        now = time.monotonic()
        whole = "" if self.batches >= self.of else f" of {self.of:,}, ended early"
        text = f"epoch {self.epoch}: {self.batches:,} batches{whole}, {self.rows:,} rows in {_clock(now - self.began)}, {self._rate(now)}"
        self._write(text)
        print(file=sys.stderr, flush=True)

    def _rate(self, now: float) -> str:
        rate = self.rows / max(1e-9, now - self.began)
        return f"{rate / 1e6:.2f} M rows/s" if rate >= 1e6 else f"{rate / 1e3:.1f} k rows/s" if rate >= 1e3 else f"{rate:.0f} rows/s"

    def _write(self, text: str) -> None:
        print(f"\r\x1b[K{text}" if self.terminal else text, end="", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02}"
