"""What a job says when it ends, well or not.

In: what was seen of a kind of step. Out: a sentence.
"""

from __future__ import annotations

from brimful.fitting import lines, memory

from .planning import Proposal
from .progress import Kind


def too_large(kind: Kind, rows: int, said: str = "") -> str:
    """Not even one sample fits."""
    need = f", which needs {memory.human(kind.proposal.least_bytes)} at least" if kind.proposal.least_bytes else ""
    room = f" into {memory.human(kind.room_bytes)}" if kind.room_bytes else ""
    words = f" ({said})" if said else ""
    return f"not even one sample of the batch of {rows} fits{room}{need}{words}. {advice(kind.proposal)}"


def advice(proposal: Proposal) -> str:
    """What would make it fit."""
    if proposal.remedies:
        return f"What the plan says would help: {'; '.join(proposal.remedies[:4])}"
    return "Try mixed precision, an optimizer with less state, or a smaller model; 'brimful plan' says what each brings"


def summary(kind: Kind, limit_bytes: int) -> str:
    """How training went."""
    words = [f"{kind.steps} steps of {kind.size.asked}, at the end {lines.taken(kind.size.asked, kind.last_size)}"]
    if kind.peak_bytes:
        words.append(f"peak {memory.human(kind.peak_bytes)} of {memory.human(limit_bytes)}")
    failures = f"{kind.failures} failure{'s' * (kind.failures != 1)} recovered" if kind.failures else "no failure"
    words.append(f"{failures}, each sample counted once")
    return ", ".join(words)
