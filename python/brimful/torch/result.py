"""A plan as Python shows it.

In: the report's JSON and the recording behind it. Out: `Plan`, with the report's fields as attributes, the text, a picture for
notebooks, and plans for other batches without another capture.
"""

from __future__ import annotations

import json
from typing import Any

from brimful.planned import Report, checked_batch


class Plan(Report):
    """Will it fit, where does the memory go, and what would make it fit?"""

    def __init__(self, capture: Any, request: dict) -> None:
        self._capture = capture
        self._request = request
        super().__init__(json.loads(capture.plan(json.dumps(request))))

    def at(self, batch: int) -> Plan:
        """The plan for another batch, from the same capture."""
        return Plan(self._capture, {**self._request, "batch": checked_batch(batch)})

    def assume(self, code: str, text: str) -> None:
        """Shows one more thing that the question left open, without another plan."""
        note = {"code": code, "text": text}
        self._request = {**self._request, "assumptions": [*self._request.get("assumptions", []), note]}
        self.report["assumptions"].append({"code": code, "layer": None, "text": text})

    def text(self, width: int = 100, colour: bool = False) -> str:
        """The report as the command prints it."""
        return self._capture.text(json.dumps(self._request), width, colour)

    def html(self) -> str:
        """The report as the command's `--format html` writes it: one page that needs nothing but a browser."""
        return self._capture.html(json.dumps(self._request))
