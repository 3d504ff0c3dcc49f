"""The sizes that a kind of step starts with: from an earlier run of the same job, or from the plan.

In: a job, the name of the kind and its first batch. Out: its `Kind`, and what is said about it, then and when a larger size begins. The
model is built on the way, and looked at if its batches are to be taken in parts. What does not fit even one sample at a time, as the
plan says, is refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import keras

from brimful.fitting import DoesNotFit, failure, lines, sizing
from brimful.fitting.host import TIGHT_SHARE
from brimful.fitting.learnt import Learnt, about
from brimful.fitting.trial import Trial

from . import planning, words
from .progress import Kind

if TYPE_CHECKING:
    from .job import Job


def first(job: Job, name: str, data: tuple, rows: int) -> Kind:
    """The sizes for the first batch of a kind of step: ``train``, ``test`` or ``predict``."""
    training = name == "train"
    limit = job.limit_bytes()
    try:
        job.backend.build(data, training)
    except Exception as error:
        if not failure.is_out_of_memory(error):
            raise
        advice = words.advice(planning.propose(job.model, rows, data, max(limit, 1), training))
        raise DoesNotFit(f"the weights and the optimizer's state do not fit ({failure.forget(error)}). {advice}") from None
    if training and not job.model.trainable_weights and keras.backend.backend() != "jax":
        # Keras's own words, from the step that is not run here.
        lines.pass_on("The model does not have any trainable weights.")
    used = job.used_bytes()
    others = max(0, used - planning.own_bytes(job.model, training, job.planned))
    room = max(0, limit - others)
    learnt = Learnt({**planning.signature(job.model, data, training), "device": job.backend.device, "kind": name})
    trial = Trial(learnt) if job.footprint is not None else None
    killed = trial.last(about(room)) if trial is not None else None
    asked = job if training and learnt.start(about(room)) is None else None
    if training:
        job.backend.join(0)
    proposal = planning.propose(job.model, rows, data, room, training, asked, job.planned) if room else planning.Proposal()
    if training and asked is None:
        job.backend.join(planning.copies(job.model, rows, proposal, room, job.planned))
    known = learnt.start(about(room))
    start = proposal.size if known is None else known
    if known is not None and proposal.size and learnt.too_large(about(room)) is None:
        # Nothing failed yet: what went well is no limit.
        start = max(known, proposal.size)
    kind = Kind(sizing.MicroBatch(rows, start), learnt, room, proposal)
    if proposal.least_bytes and proposal.least_bytes > room and known is None:
        if not job.lowered():
            raise DoesNotFit(words.too_large(kind, rows))
        proposal = planning.propose(job.model, rows, data, room, training)
        kind = Kind(sizing.MicroBatch(rows, proposal.size), learnt, room, proposal)
    kind.base_bytes, kind.size.too_large = used, learnt.too_large(about(room))
    share = (proposal.predicted_bytes or room) / max(1, room)
    doubtful = job.footprint is not None and _beware(job, kind, share, known)
    if kind.size.size < rows:
        job.look(data, rows, name)
        forbidden = (job.predict_forbidden if name == "predict" else job.forbidden) is not None
        if forbidden or (doubtful and training and job.findings):
            # It may fit all the same: the plan is a prediction, and this is the only size that gives what was asked for.
            kind.size.size = rows
    if killed is not None:
        fewer = f": {lines.taken(rows, kind.size.size)} now" if kind.size.size < rows else ""
        lines.say(f"the last run was killed for memory with {killed} samples at a time{fewer}")
    if kind.size.size < rows or share > TIGHT_SHARE:
        kind.trial = trial
    if training and kind.size.size < rows:
        job.backend.join(0)
    return kind


def _beware(job: Job, kind: Kind, share: float, known: int | None) -> bool:
    """Where running out ends the process, nothing is tried that no measured peak speaks for; whether the plan says that the batch just fits.

    share: what the plan predicts of the room. known: what went well in an earlier run.
    """
    proposal, size = kind.proposal, kind.size
    just_fits = size.size == size.asked and proposal.predicted_bytes is not None and share > TIGHT_SHARE
    doubtful = just_fits and not proposal.compiled and job.wanted_bytes is None
    size.careful = proposal.tight or doubtful or (size.size < size.asked and size.too_large is not None)
    kind.on_host = size.careful and job.wanted_bytes is None
    if kind.on_host and not proposal.compiled and (proposal.tight or doubtful):
        # A mistake of the plan's would be the end: two steps with half as many say what they really take.
        size.size = min(size.size, known or max(1, size.size // 2))
    return doubtful


def say(job: Job, kind: Kind, rows: int, name: str) -> None:
    """How the batches of a kind of step are taken, and what differs then."""
    what = {"train": "", "test": "evaluating: ", "predict": "predicting: "}[name]
    split = kind.size.size < rows
    result = ("same result" if name != "train" else "same gradients") if not (split and job.findings) else "see below what differs"
    if split and job.rule is not None and (job.rule.doubted or job.rule.scalars or job.rule.whole) and not job.findings:
        result += ", as a few samples show"
    if not split:
        result = "as it stands"
    predicted = kind.proposal.predicted_bytes if kind.size.size == (kind.proposal.size or rows) else None
    # In a loop of calls, once for each way that a batch is taken.
    if (name, rows, kind.size.size) not in job.said:
        if lines.say(what + lines.started(rows, kind.size.size, predicted, kind.room_bytes or None, result)):
            job.said.add((name, rows, kind.size.size))
    if split:
        job.say_findings()


def say_larger(kind: Kind) -> None:
    """A step begins with more samples at a time than the one before it: not said before, as that may have been the last."""
    if kind.grown_from:
        now, before = (lines.taken(kind.size.asked, size) for size in (kind.size.size, kind.grown_from))
        lines.say(f"there is room: {now} from step {kind.steps + 1} on, after {before}")
        kind.grown_from = 0
