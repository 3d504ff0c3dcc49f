"""How far a batch has come, and what is known about a kind of step.

In: what `job` finds out. Out: the same, for its next attempt or its next batch. Nothing is decided here.
"""

from __future__ import annotations

from typing import Any

from brimful.fitting import sizing
from brimful.fitting.learnt import Learnt
from brimful.fitting.trial import Trial

from .planning import Proposal


class Progress:
    """How far the current batch has come."""

    def __init__(self) -> None:
        self.kept: Any = None
        self.failures = 0
        self.done = 0
        self.parts = 0
        self.trying = 0
        #: Samples in the largest part.
        self.largest = 0
        self.again = 0
        self.pauses = 0
        self.gradients: Any = None
        self.counts: list | None = None
        #: By part: its loss, and each of several.
        self.losses: list = []
        self.values: list = []
        self.predictions: list = []
        self.seeds: list = []
        self.seeds_after: list = []
        self.logs: dict | None = None
        #: Decided once for a batch: what is free changes while memory is short.
        self.collect: bool | None = None


class Kind:
    """Training, testing or predicting: each has its own sizes."""

    def __init__(self, size: sizing.MicroBatch, learnt: Learnt, room_bytes: int, proposal: Proposal) -> None:
        self.size = size
        self.learnt = learnt
        self.room_bytes = room_bytes
        self.proposal = proposal
        self.steps = 0
        #: How many samples at a time the last step took; and, where the next one takes more, how many it was before.
        self.last_size = 0
        self.grown_from = 0
        self.failures = 0
        self.most_parts = 1
        self.peak_bytes = 0
        #: What was in use before the first step.
        self.base_bytes = 0
        #: Whether its peaks are those of the process, which would be ended at the host's limit.
        self.on_host = False
        #: Where a step may be the process's end: what says so to the next run.
        self.trial: Trial | None = None
