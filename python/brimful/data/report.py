"""Plans and statistics: dictionaries that show themselves in words.

In: what the extension counted. Out: figures by name or as attributes, and text for people.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from brimful.fitting.memory import human

PARTS = ("index of the files", "reading and decoding", "rows mixed and read ahead", "batches")


class Report(dict):
    """Figures by name, also as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no '{name}'; there are {', '.join(self)}") from None

    def __repr__(self) -> str:
        return str(self)


class Plan(Report):
    """How a budget is used, before anything is read."""

    def __str__(self) -> str:
        parts = zip(PARTS, (self.index_bytes, self.reading_bytes, self.window_bytes, self.batch_bytes))
        lines = [
            f"Fits {human(self.memory_bytes)}: holds {human(self.expected_bytes)} at most, and needs {human(self.floor_bytes)} at least.",
            *(f"  {human(size):>10}  {name}" for name, size in parts),
            f"{self.epoch_rows:,} rows in {self.batches:,} batches of an epoch, {human(self.row_bytes)} a row; "
            f"{self.threads} thread{'s' * (self.threads > 1)} read{'s' * (self.threads == 1)}.",
        ]
        if self.shuffle in ("window", "block"):
            lines.append(f"Up to {min(self.block_rows * self.group_blocks, self.epoch_rows):,} rows are mixed together.")
        lines += [f"{note[:1].upper()}{note[1:]}." for note in self.notes]
        return "\n".join(lines)


class Stats(Report):
    """What a loader counted so far, beside what the process took."""

    def __str__(self) -> str:
        parts = ", ".join(f"{human(size)} {name}" for name, size in self.parts.items() if size)
        lines = [
            f"{self.rows:,} rows in {self.batches:,} batches; {self.waited_seconds:.2f} s waited for.",
            f"The budget: {human(self.peak_bytes)} of {human(self.memory_bytes)} at most ({parts}), {human(self.used_bytes)} now.",
        ]
        if self.process_peak_bytes is not None:
            lines.append(f"The process: {human(self.process_peak_bytes)} at most, {human(self.process_bytes)} now.")
        if self.pinned_peak_bytes:
            lines.append(f"Pinned by PyTorch, a copy of each batch: {human(self.pinned_peak_bytes)} at most.")
        if self.bad_rows:
            lines.append(f"{self.bad_rows:,} bad rows; the first:")
            lines += [f"  {bad['file']}, {bad['place']}: {bad['reason']}" for bad in self.first_bad[:5]]
        return "\n".join(lines)


def stats(figures: dict, pins: Any) -> Stats:
    """The extension's figures, with those of the process and of pinned memory."""
    ledger = figures["ledger"]
    peak, now = _process()
    return Stats(
        memory_bytes=ledger["budget_bytes"] + pins.most_bytes,
        peak_bytes=ledger["peak_bytes"],
        used_bytes=ledger["used_bytes"],
        parts=dict(zip(PARTS, ledger["peak_by_purpose_bytes"])),
        process_peak_bytes=peak,
        process_bytes=now,
        pinned_peak_bytes=pins.peak_bytes,
        rows=figures["rows"],
        batches=figures["batches"],
        bad_rows=figures["bad_rows"],
        first_bad=figures["first_bad"],
        waited_seconds=figures["waited_us"] / 1e6,
    )


def _process() -> tuple[int | None, int | None]:
    """The most that the process held so far, and what it holds now; nothing where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None, None
    found = {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.startswith(("VmHWM:", "VmRSS:"))}
    return found.get("VmHWM"), found.get("VmRSS")
