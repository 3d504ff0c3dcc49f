"""A plan as Python shows it.

In: the report's JSON and the recording behind it. Out: `Plan`, with the report's fields as attributes, the text, a picture for
notebooks, and plans for other batches without another capture.
"""

from __future__ import annotations

import html
import json
from types import SimpleNamespace
from typing import Any

PARTS = {
    "parameters": "#4269d0",
    "gradients": "#efb118",
    "optimizer_state": "#ff725c",
    "saved_activations": "#3ca951",
    "inputs": "#6cc5b0",
    "temporaries": "#a463f2",
    "workspace": "#9498a0",
    "allocator_slack": "#d0d4da",
    "context": "#97bbf5",
}


class Plan:
    """Will it fit, where does the memory go, and what would make it fit?"""

    def __init__(self, capture: Any, request: dict) -> None:
        self._capture = capture
        self._request = request
        self.report: dict = json.loads(capture.plan(json.dumps(request)))

    @property
    def fits(self) -> bool | None:
        """Whether the job fits, if tightly; None if only a part of the step could be captured, and that part fits."""
        if self.report["verdict"] == "does_not_fit":
            return False
        return None if self.partial else True

    @property
    def partial(self) -> bool:
        """Whether the capture stopped before the end of the step; a note says where and why."""
        return any(note["code"] == "partial_capture" for note in self.notes)

    @property
    def verdict(self) -> str:
        """`fits`, `tight` or `does_not_fit`."""
        return self.report["verdict"]

    @property
    def peak(self) -> SimpleNamespace:
        """The peak: `allocated_bytes`, `reserved_bytes`, `device_bytes`, `low_bytes`, `high_bytes`, `at`."""
        return SimpleNamespace(**self.report["peak"])

    @property
    def breakdown(self) -> dict:
        """What fills the device at the peak, in bytes; the parts add up to `peak.device_bytes`."""
        return self.report["breakdown"]

    @property
    def max_batch(self) -> int | None:
        """The largest batch that fits; None if nothing limits it or not even one sample fits."""
        return self.report["max_batch"]

    @property
    def remedies(self) -> list[dict]:
        """Changes that need less memory, best first."""
        return self.report["remedies"]

    @property
    def notes(self) -> list[dict]:
        """What was guessed, bounded or never measured."""
        return self.report["notes"]

    def at(self, batch: int) -> "Plan":
        """The plan for another batch, from the same capture."""
        if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
            raise ValueError(f"batch is {batch!r}: write a number of samples, 1 or more")
        return Plan(self._capture, {**self._request, "batch": batch})

    def assume(self, code: str, text: str) -> None:
        """Shows one more thing that the question left open, without another plan."""
        note = {"code": code, "text": text}
        self._request = {**self._request, "assumptions": [*self._request.get("assumptions", []), note]}
        self.report["assumptions"].append({"code": code, "layer": None, "text": text})

    def to_json(self) -> str:
        """The report as the command's `--format json` writes it."""
        return json.dumps(self.report, indent=2)

    def text(self, width: int = 100, colour: bool = False) -> str:
        """The report as the command prints it."""
        return self._capture.text(json.dumps(self._request), width, colour)

    def html(self) -> str:
        """The report as the command's `--format html` writes it: one page that needs nothing but a browser."""
        return self._capture.html(json.dumps(self._request))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        gib = self.peak.device_bytes / 2**30
        return f"<Plan: {self.report['model']['name']} at batch {self.report['job']['batch']}, {gib:.2f} GiB, {'a part of the step only' if self.partial else self.verdict}>"

    def _repr_html_(self) -> str:
        total = max(1, sum(self.breakdown.values()))
        bars, legend = [], []
        for part, colour in PARTS.items():
            size = self.breakdown.get(part, 0)
            if size * 200 < total:
                continue
            title = f"{part.replace('_', ' ')}: {size / 2**20:,.0f} MiB"
            bars.append(
                f'<span title="{title}" style="width:{100 * size / total:.2f}%;background:{colour};display:inline-block;height:22px"></span>'
            )
            legend.append(f'<span style="margin-right:1em;white-space:nowrap"><span style="color:{colour}">&#9632;</span> {title}</span>')
        lines = "".join(
            f"<tr><td style='text-align:left'>{html.escape(remedy['title'])}</td><td>{remedy['peak_bytes'] / 2**30:.2f} GiB</td>"
            f"<td>{html.escape(remedy['same_result'])}</td></tr>"
            for remedy in self.remedies[:5]
        )
        heading = html.escape(repr(self)[1:-1])
        table = (
            f"<table><tr><th style='text-align:left'>what needs less</th><th>peak</th><th>result</th></tr>{lines}</table>" if lines else ""
        )
        return (
            f'<div><b>{heading}</b><div style="font-size:0;margin:6px 0">{"".join(bars)}</div>'
            f'<div style="font-size:90%">{" ".join(legend)}</div>{table}</div>'
        )
