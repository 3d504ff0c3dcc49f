"""A step inside the budget: the batch in parts, tried again when memory runs out, with nothing of the failed attempt left.

In: batches as Keras passes them. Out: the logs that Keras expects. The parts of a batch add up to its gradient (`terms`), the optimizer
is called once, the metrics see the whole batch. When a part fails, the state it changed is put back and the same samples are taken
again: as they were, if that size went well before (memory that others took may be back), then in one part more, else half as many at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import keras

from brimful.fitting import CannotSplit, DoesNotFit, failure, lines, memory, sizing
from brimful.fitting.host import Footprint
from brimful.fitting.learnt import about

from . import arrays, backends, batches, findings, numerics, probe, start, state, terms, words
from .progress import Kind, Progress

#: Predictions of a batch that are kept until its metrics are computed at once; larger ones are counted part by part.
COLLECTED_BYTES = 16 << 20
COLLECTED_SHARE = 0.02
#: An update or a metric has nothing to halve: pauses before it is tried again, in case others took the memory.
PAUSES_SECONDS = (0.0, 0.1, 1.0)
#: More of them, for the one thing that must not fail.
UNDO_SECONDS = (5.0, 30.0)
#: Steps whose peak is compared with a limit that the user gave: the first makes what the second finds there.
VERIFIED_STEPS = 2
#: Steps after which parts of models whose result depends on them stay as they are.
SETTLED_STEPS = 4


class Job:
    """One model, trained, tested or asked inside a budget."""

    def __init__(self, model: Any, wanted: str | int = "auto", allow: str = "exact") -> None:
        if allow not in ("exact", "numerics"):
            raise ValueError(f"allow is '{allow}': write exact or numerics")
        self.model = model
        self.allow = allow
        self.wanted = wanted
        self.wanted_bytes = None if wanted in ("auto", None) else memory.parse(wanted)
        #: What loaders of this run will still take of the memory that is free now.
        self.data_bytes = 0
        self.backend = backends.make(model)
        #: What the process holds, where running out of memory would end it.
        self.footprint = Footprint.where_needed(batches.bytes_of(model.variables)) if self.backend.on_host else None
        self.kinds: dict[str, Kind] = {}
        self.rule: terms.Rule | None = None
        #: The fewest samples that a part may have.
        self.least = 1
        self._looked = self._watched = False
        self.findings: list[findings.Finding] = []
        self.forbidden: findings.Finding | None = None
        self.predict_forbidden: findings.Finding | None = None
        self.said: set = set()
        #: Arrays that stay where they are, by whose numbers of rows Keras passes.
        self.rows: dict[str, Any] = {}
        #: Whether nobody is called between batches who could write into the arrays that they are made of.
        self.still = False
        #: The functions of Keras's loop that the job stands for now.
        self.taken: set[str] = set()
        #: What earlier calls found out: plans by batch, and sizes that do not change.
        self.planned: dict = {}
        self._made_for = self._identity()

    def still_fits(self, model: Any) -> bool:
        """Whether what was traced is still what the model does."""
        now = self._identity()
        return len(now) == len(self._made_for) and all(old is new for old, new in zip(self._made_for, now))

    def look_again(self) -> None:
        """The model is another one from here on: what was traced and found out is out of date."""
        self.backend.forget()
        self.planned.clear()
        self.findings, self._looked, self._watched = [], False, False

    def _identity(self) -> tuple:
        model = self.model
        trainable = tuple(model.trainable_variables) if model.built else ()
        parts = [getattr(model, name, None) for name in ("optimizer", "_compile_loss", "_compile_metrics", "run_eagerly", "jit_compile")]
        return (*parts, *trainable)

    def own(self, kind: str) -> str | None:
        """The user's function for the steps of this kind ("train", "test" or "predict"), if there is one: it runs as it is."""
        names = (f"make_{kind}_function", f"{kind}_step")
        model = self.model
        return next((name for name in names if name in vars(model) or getattr(type(model), name) is not getattr(keras.Model, name)), None)

    def goes_well(self, rows: int, whole: bool = False) -> bool:
        """Whether training steps of so many samples went well (whole: not in parts), and none has failed."""
        kind = self.kinds.get("train")
        if kind is None or kind.failures or rows > kind.size.asked:
            return False
        if self.rule is not None and self.rule.doubted and kind.size.size < rows:
            return False  # each batch is looked at before its update
        return rows <= min(kind.size.size, kind.size.good) if whole else min(rows, kind.size.size) <= kind.size.good

    def begin(self, data: tuple, rows: int) -> tuple[dict, int]:
        """A step like those that went well, not tried again where it fails: its logs, and in how many parts it was taken."""
        progress = Progress()
        start.say_larger(self.kinds["train"])
        self._train_parts(self.kinds["train"], data, rows, progress)
        if progress.gradients is not None and self.model.trainable_weights:
            self.backend.update(progress.gradients)
        return progress.logs, progress.parts

    def stepped(self, rows: int, parts: int) -> None:
        """Such a step is done."""
        self._went_well(self.kinds["train"], rows, parts)

    def begins_again(self, before: int, interrupted: bool) -> None:
        """Such a step ran out of memory, or was interrupted, and is taken in the ordinary way now; so many before it once more, too."""
        kind = self.kinds["train"]
        self.backend.release()
        if not interrupted:
            kind.failures += 1
            earlier = f" and those of the {before} step{'s' * (before > 1)} before it" if before else ""
            lines.say(f"step {kind.steps + 1} ran out of memory: the same samples{earlier} once more, and each step is waited for now")
        kind.steps -= before

    # One step of each kind.

    def train(self, data: tuple) -> dict:
        """One optimizer step of the whole batch."""
        data = arrays.taken(self, data)
        rows = batches.rows(data[0])
        kind = self._kind("train", data, rows)
        progress = Progress()
        while True:
            try:
                self._train_parts(kind, data, rows, progress)
                if progress.gradients is not None and self.model.trainable_weights:
                    self.backend.update(progress.gradients)
                break
            except BaseException as error:
                if not failure.is_out_of_memory(error):
                    # An interrupt in the middle of an update: the weights are as they were before it.
                    self._undo()
                    raise
                said = failure.forget(error)
            self._failed(kind, data, rows, progress, said)
        self._went_well(kind, rows, progress.parts, progress.failures)
        return progress.logs

    def _train_parts(self, kind: Kind, data: tuple, rows: int, progress: Progress) -> None:
        """The gradients and the logs of the batch, from where the last attempt got to."""
        if progress.logs is not None:
            return
        backend = self.backend
        if progress.done == 0 and kind.size.size >= rows:
            progress.trying = rows
            progress.kept = backend.keep()
            progress.gradients, progress.logs = backend.whole(data)
            progress.done, progress.parts, progress.kept = rows, 1, None
            return
        rule = self._split(data, rows)
        collect = progress.collect = self._collects(rows) if progress.collect is None else progress.collect
        progress.counts = self._counts(kind, data, rows, progress)
        if progress.done == 0:
            progress.seeds = backend.seeds()
        while progress.done < rows:
            begin, end = progress.done, self._next_end(kind, rows, progress)
            progress.trying = end - begin
            progress.kept = backend.keep()
            if progress.parts and progress.seeds:
                backend.set_seeds(state.varied(progress.seeds, progress.parts))
            share = (end - begin) / rows
            part = backend.part(data, begin, end)
            # Where predictions are not kept, the part updates the metrics.
            before = None if self._watched else backend.others(metrics=collect)
            gradients, loss, values, predicted = backend.gradients(part, rule, share, progress.counts, progress.gradients, collect)
            if before is not None:
                self._watch(before, backend.others(metrics=collect))
            if progress.parts == 0 and progress.seeds:
                # As the whole batch would leave them, in however many parts it is taken.
                progress.seeds_after = backend.seeds()
            progress.gradients = gradients
            self._add(progress, loss, values, predicted)
            progress.done, progress.parts, progress.kept, progress.again = end, progress.parts + 1, None, 0
            progress.largest = max(progress.largest, end - begin)
            kind.size.good = max(kind.size.good, end - begin)
        self._verify(data, rows, progress, training=True)
        logs = self._finish(data, rows, progress, collect)
        if progress.seeds:
            backend.set_seeds(progress.seeds_after)
        progress.logs, progress.kept, progress.predictions = logs, None, []

    def test(self, data: tuple) -> dict:
        """The loss and the metrics of one batch, without training."""
        data = arrays.taken(self, data)
        rows = batches.rows(data[0])
        kind = self._kind("test", data, rows)
        progress = Progress()
        while True:
            try:
                self._test_parts(kind, data, rows, progress)
            except Exception as error:
                if not failure.is_out_of_memory(error):
                    raise
                said = failure.forget(error)
            else:
                break
            self._failed(kind, data, rows, progress, said)
        self._went_well(kind, rows, progress.parts, progress.failures)
        return progress.logs

    def _test_parts(self, kind: Kind, data: tuple, rows: int, progress: Progress) -> None:
        backend = self.backend
        if progress.done == 0 and kind.size.size >= rows:
            progress.trying = rows
            progress.kept = backend.keep()
            progress.logs = backend.test_whole(data)
            progress.done, progress.parts = rows, 1
            return
        rule = self._split(data, rows)
        collect = progress.collect = self._collects(rows) if progress.collect is None else progress.collect
        progress.counts = self._counts(kind, data, rows, progress)
        while progress.done < rows:
            begin, end = progress.done, self._next_end(kind, rows, progress)
            progress.trying = end - begin
            progress.kept = backend.keep()
            part = backend.part(data, begin, end)
            loss, values, predicted = backend.test_part(part, rule, (end - begin) / rows, progress.counts, collect)
            self._add(progress, loss, values, predicted)
            progress.done, progress.parts, progress.kept, progress.again = end, progress.parts + 1, None, 0
            progress.largest = max(progress.largest, end - begin)
            kind.size.good = max(kind.size.good, end - begin)
        self._verify(data, rows, progress, training=False)
        progress.logs = self._finish(data, rows, progress, collect)

    def predict(self, data: tuple) -> Any:
        """What the model says about one batch."""
        data = arrays.taken(self, data)
        rows = batches.rows(data[0])
        kind = self._kind("predict", data, rows)
        progress = Progress()
        while progress.done < rows or not progress.predictions:
            try:
                begin, end = progress.done, self._next_end(kind, rows, progress)
                progress.trying = end - begin
                progress.predictions.append(self.backend.predict(self.backend.part(data, begin, end)))
                progress.done, progress.parts, progress.again = end, progress.parts + 1, 0
                continue
            except Exception as error:
                if not failure.is_out_of_memory(error):
                    raise
                said = failure.forget(error)
            self._failed(kind, data, rows, progress, said)
        self._went_well(kind, rows, progress.parts, progress.failures)
        return self.backend.concatenate(progress.predictions)

    # What the kinds share.

    def _next_end(self, kind: Kind, rows: int, progress: Progress) -> int:
        """Where the next part ends: the rest of the batch in as few and equal parts as its size allows."""
        left = rows - progress.done
        size = kind.size.size
        if self.least > 1 and left > 1:
            # As few parts as their size allows, but none with a single sample: BatchNorm would make zeros of it.
            size = max(size, -(-left // max(1, min(-(-left // max(1, size)), left // self.least))))
        return progress.done + sizing.parts(left, size)[0][1]

    def _add(self, progress: Progress, loss: Any, values: list, predicted: Any) -> None:
        """Nothing here needs memory: a failure between the parts of it would count a part twice."""
        progress.losses.append(loss)
        progress.values.append(list(values))
        if predicted is not None:
            progress.predictions.append(predicted)

    def _verify(self, data: tuple, rows: int, progress: Progress, training: bool) -> None:
        """What a few samples said of a loss may not hold for others. Before the update: nothing has been trained with this batch then."""
        rule = self.rule
        if not rule.doubted or not progress.collect:
            return
        if rule.whole is None:
            data = (None, *data[1:])
        found = progress.values if rule.whole is None else [[loss] for loss in progress.losses]
        kept = self.backend.keep()
        try:
            predictions = self.backend.concatenate(progress.predictions)
            right = probe.holds(self.backend, rule, data, predictions, progress.largest, progress.counts, found, training)
        except Exception as error:
            if not failure.is_out_of_memory(error):
                raise
            failure.forget(error)
            right = True
        finally:
            self.backend.put_back(kept)
        if not right:
            self.forbidden = findings.Finding("loss_couples", probe.DIVIDES, splits=False)
            raise CannotSplit(f"the batch of {rows} cannot be taken in parts: {probe.DIVIDES}")

    def _finish(self, data: tuple, rows: int, progress: Progress, collect: bool) -> dict:
        """The metrics of the whole batch, when all of its parts are done."""
        progress.trying = 0
        progress.kept = self.backend.keep()
        if type(self.model).compute_metrics is keras.Model.compute_metrics:
            # Keras's metrics do not look at the inputs, which may be large.
            data = (None, *data[1:])
        return self.backend.finish(data, rows, progress.losses, progress.values, progress.predictions if collect else None)

    def _counts(self, kind: Kind, data: tuple, rows: int, progress: Progress) -> list:
        """What the whole batch divides its losses by: needed before the first part's gradient."""
        if progress.counts is not None or not self.rule.counted:
            return progress.counts or []
        total: list = []
        for begin, end in sizing.parts(rows, kind.size.size):
            progress.trying = end - begin
            found = self.backend.counts(self.backend.part(data, begin, end))
            total = found if not total else [old + new for old, new in zip(total, found)]
        return total

    def _collects(self, rows: int) -> bool:
        needed = self.rule.sample_bytes * rows
        collects = needed <= COLLECTED_BYTES or needed <= COLLECTED_SHARE * self.limit_bytes()
        own = [] if collects else findings.own_metrics(self.model)
        if (
            own
            and "own_metrics" not in self.said
            and lines.warn(
                f"{', '.join(own)}: the predictions of a batch are too large to be kept, so this is updated once for each part; its value may differ"
            )
        ):
            self.said.add("own_metrics")
        return collects

    def _kind(self, name: str, data: tuple, rows: int) -> Kind:
        """The sizes for this kind of step; made at its first batch."""
        if name in self.kinds:
            kind = self.kinds[name]
            kind.size.ask(rows)
            start.say_larger(kind)
        else:
            kind = self.kinds[name] = start.first(self, name, data, rows)
            if name == "train" or kind.size.size < rows:
                start.say(self, kind, rows, name)
        if kind.trial is not None:
            kind.trial.begin(about(kind.room_bytes), min(kind.size.size, rows))
        return kind

    def limit_bytes(self) -> int:
        """What the allocator may hold altogether; nothing where nobody knows."""
        if self.wanted_bytes is not None:
            return self.wanted_bytes
        limit = self.backend.limit_bytes() if self.footprint is None else self.footprint.limit_bytes()
        return max(0, (limit or 0) - self.data_bytes)

    def used_bytes(self) -> int:
        """What the allocator has given out, or the process holds; nothing where nobody knows."""
        return (self.backend.used_bytes() if self.footprint is None else self.footprint.used_bytes()) or 0

    def _peak_bytes(self, kind: Kind) -> int | None:
        """The most that was held since the last call, where somebody knows."""
        if not kind.on_host:
            peak = self.backend.peak_bytes()
            self.backend.reset_peak()
            return peak
        peak = self.footprint.peak_bytes()
        self.footprint.reset_peak()
        # What is compiled and started for a new size is in the first step's, and is not needed again.
        return None if kind.size.is_new else peak

    def say_findings(self) -> None:
        """What differs in parts, each finding once."""
        for finding in self.findings:
            if finding.code not in self.said and lines.warn(finding.text):
                self.said.add(finding.code)

    def look(self, data: tuple, rows: int, name: str = "") -> None:
        """Whether this model's batches can be taken in parts, and what differs then. Once."""
        if name == "predict":
            # Nothing is trained: there need be no loss, and what BatchNorm and dropout do in training does not matter.
            stateful = next((found for found in findings.look(self.model) if not found.splits), None)
            self.predict_forbidden = stateful or (probe.same_results(self.backend, self.model, data) if rows > 1 else None)
            return
        if self._looked:
            return
        self.findings = [*self.findings, *findings.look(self.model)]
        self.least = 2 if findings.batch_norms(self.model) else 1
        self.forbidden = next((found for found in self.findings if not found.splits), None)
        if self.forbidden is None and rows > 1:
            self.rule, found = probe.found_out(self.backend, self.model, data)
            self.forbidden = found if found is not None and not found.splits else None
            if found is not None and found.splits and found.code not in {each.code for each in self.findings}:
                self.findings.append(found)
        self._looked = True

    def _watch(self, before: list, after: list) -> None:
        """After the first part: whether a layer or the model changed something of its own, which it then does once for each part."""
        self._watched = True
        changed = [name for (name, old), (_, new) in zip(before, after) if old.shape != new.shape or (old != new).any()]
        if changed:
            names = ", ".join(changed[:3])
            changes = "changes" if len(changed) == 1 else "change"
            text = f"{names} {changes} whenever the model is called: once for each part instead of once for the batch"
            self.findings.append(findings.Finding("moving_state", text))
            self.say_findings()

    def rule_for(self, data: tuple, rows: int) -> terms.Rule | None:
        """How the terms of the loss add up over parts, if they do."""
        self.look(data, rows)
        return None if self.forbidden is not None else self.rule

    def _split(self, data: tuple, rows: int) -> terms.Rule:
        self.look(data, rows)
        if self.forbidden is not None:
            raise CannotSplit(self.forbidden.text)
        return self.rule

    def _failed(self, kind: Kind, data: tuple, rows: int, progress: Progress, said: str) -> None:
        """After an attempt that ran out of memory: its traces removed, and the next size chosen."""
        kind.failures += 1
        progress.failures += 1
        if kind.trial is not None:
            kind.trial.end()
        if progress.kept is not None:
            self.restored(lambda: self.backend.put_back(progress.kept))
            progress.kept = None
        self.backend.release()
        self._undo()
        tried = progress.trying
        step = kind.steps + 1
        if progress.done >= rows or tried == 0:
            # The update or the metrics: there is nothing to halve.
            if progress.pauses >= len(PAUSES_SECONDS):
                raise DoesNotFit(f"step {step}: the optimizer's update does not fit ({said}). {words.advice(kind.proposal)}")
            # The first time as it was: what others took may be back.
            self.backend.lean = self.backend.lean or progress.pauses > 0
            time.sleep(PAUSES_SECONDS[progress.pauses])
            progress.pauses += 1
            lines.say(f"step {step} ran out of memory in the update: nothing of it was kept, and it is done again")
            return
        if self.backend.joint:
            self.backend.joint = False
            lines.say(f"step {step} ran out of memory at {tried} samples: the same samples once more, with less held beside them")
            return
        if self.backend.set_aside(progress.gradients):
            lines.say(
                f"step {step} ran out of memory at {tried} samples: what the parts before left waits on the host, the same samples once more"
            )
            return
        if progress.again == 0 and kind.size.repeats(tried):
            progress.again = 1
            lines.say(f"step {step} ran out of memory at {tried} samples, which went well before: the same samples once more")
            return
        progress.again = 0
        kind.learnt.bad(about(kind.room_bytes), tried)
        predicts = kind is self.kinds.get("predict")
        try:
            if rows > 1:
                self.look(data, rows, "predict" if predicts else "")
            forbidden = self.predict_forbidden if predicts else self.forbidden
            if forbidden is not None:
                raise CannotSplit(f"the batch of {rows} ran out of memory, and {forbidden.text}. {words.advice(kind.proposal)}")
            size = kind.size.failed(tried if tried > self.least else 1)
        except DoesNotFit:
            if self.lowered():
                return
            kind.learnt.save()
            raise DoesNotFit(words.too_large(kind, rows, said)) from None
        lines.say(f"step {step} ran out of memory at {tried} samples: the same samples again, {size} at a time")
        if kind is not self.kinds.get("predict"):
            self.say_findings()

    def _undo(self) -> None:
        """Puts back what a failed update changed."""
        self.restored(self.backend.undo)

    def restored(self, put_back: Callable[[], Any]) -> Any:
        """Puts something back, or makes it again, even if others hold the memory for a while: until then the model is neither old nor new."""
        for pause in (*PAUSES_SECONDS, *UNDO_SECONDS):
            try:
                return put_back()
            except Exception as error:
                if not failure.is_out_of_memory(error):
                    raise
                failure.forget(error)
            self.backend.release()
            time.sleep(pause)
        raise RuntimeError("a step failed half-way and there is no memory to put the model back: go on from your last checkpoint")

    def lowered(self) -> bool:
        """Whether mixed precision is allowed, and was not yet in use."""
        if self.allow != "numerics" or not numerics.lower(self.model):
            return False
        self.backend.forget()
        self.planned.clear()
        self.findings.append(findings.Finding("numerics", numerics.TEXT))
        lines.say(f"not even one sample fits: {numerics.TEXT}")
        self.said.add("numerics")
        return True

    def _went_well(self, kind: Kind, rows: int, parts: int, failures: int = 0) -> None:
        kind.steps += 1
        if kind.trial is not None:
            kind.trial.went_well()
        before = kind.last_size = kind.size.size
        kind.most_parts = max(kind.most_parts, parts)
        verify = self.wanted_bytes is not None and kind.steps <= VERIFIED_STEPS
        if kind.size.size >= kind.size.asked and not kind.failures and not verify:
            # Nothing to find out; what it costs to ask would be the whole cost of this.
            kind.size.good = max(kind.size.good, rows)
            return
        peak = self._peak_bytes(kind)
        kind.peak_bytes = max(kind.peak_bytes, peak or 0)
        largest = max(end - begin for begin, end in sizing.parts(rows, kind.size.size))
        if kind.base_bytes:
            # What is there without any sample: with the first peak it says how much a sample takes.
            kind.size.peaks.setdefault(0, kind.base_bytes)
        limit = self.limit_bytes() if peak and (kind.on_host or self.wanted_bytes is not None) else None
        if limit and peak > limit and largest > 1 and self.forbidden is None:
            # A limit that the user gave, or the host's, is not the allocator's: nothing failed, and it is kept all the same.
            size = kind.size.exceeded(largest, peak, limit)
            kind.learnt.bad(about(kind.room_bytes), largest)
            lines.say(f"step {kind.steps} took {memory.human(peak)} of {memory.human(limit)}: {size} samples at a time from now on")
            return
        # Where the result depends on the parts, measured peaks do not change them for a little more speed. After many good steps more are tried
        # all the same, where that is no danger: nearer to the batch that was asked for, if it was others who took the memory.
        settled = self.findings and (kind.steps > SETTLED_STEPS or not kind.on_host)
        clean = peak if failures == 0 else None
        taken = largest if kind.size.size < rows else rows
        if kind.size.succeeded(taken, clean, None if settled else self.limit_bytes):
            kind.grown_from = before
            # Blocks of the old sizes, kept for the next step, would lie in the way of the new ones.
            self.backend.release()

    def finished(self) -> None:
        """What was learnt is kept, and said."""
        for name, kind in self.kinds.items():
            if kind.trial is not None:
                kind.trial.end()
            if kind.steps and (kind.size.size < kind.size.asked or kind.failures or kind.on_host):
                kind.learnt.good(about(kind.room_bytes), kind.size.size)
                kind.learnt.save()
            if name == "train" and kind.steps and (kind.most_parts > 1 or kind.failures):
                lines.say(words.summary(kind, self.limit_bytes()))
