"""A training step that stays inside a budget, with the gradients of the batch that was asked for.

    step = brimful.torch.Step(model, loss, optimizer)
    for batch in loader:
        loss_value = step(batch)

In: batches as the loader gives them. Out: the batch's loss, after one update. A batch that does not fit is taken in parts, each weighted
by what it holds of what the loss divides by. An out-of-memory error undoes the attempt and repeats it: as it was, if so many samples went
well before (memory that others took may be back), else with half as many at a time. Not covered: several devices or ranks, optimizers
that call the model, and what modules keep in plain attributes.
"""

from __future__ import annotations

import atexit
import math
import weakref
from typing import Any, Callable

import torch

from brimful.fitting import CannotSplit, DoesNotFit, failure, learnt, lines, memory, sizing
from brimful.fitting.trial import Trial

from . import admit, budget, doubts, guard, hooks, loss_state, norms, parts, probe, start, weigh
from .gradients import Gradients
from .update import Update

PRECISIONS = ("keep", "mixed_bfloat16", "mixed_float16")
SAME = "same gradients"
#: A plan whose peak is as far off, or further, does not decide how far a size may grow.
PLAN_IS_OFF = 0.05
UNVERIFIED = (
    "there was no room to try out on two samples whether the parts add up to the whole: the gradients are weighted as usual, not verified"
)


class _OtherLoss(Exception):
    """The parts of this batch do not add up to its loss."""


class Step:
    """One update of the model for each batch, inside the memory there is.

    model: a module on one device.
    loss: one of PyTorch's losses, which gets (outputs, targets); a function of (outputs, batch); or None where the output has its own.
    optimizer: over the model's parameters.
    memory: ``auto``, or a limit such as ``"3GiB"``; on a GPU the limit is also set for PyTorch's allocator.
    precision: ``keep``, ``mixed_bfloat16`` or ``mixed_float16`` (autocast, the latter with a GradScaler).
    clip: a largest norm of all gradients, or a function of the parameters; once for each batch.
    scaler: a GradScaler. scheduler: stepped once for each batch.
    normalize: a function of the batch that counts what a mean loss divides by, such as unmasked tokens; by default found out.
    allow: ``exact``, or ``numerics``, which permits bfloat16 where the batch does not fit otherwise.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Any,
        optimizer: torch.optim.Optimizer,
        memory: str | int = "auto",
        precision: str = "keep",
        clip: float | Callable | None = None,
        scaler: Any = None,
        scheduler: Any = None,
        normalize: Callable | None = None,
        allow: str = "exact",
    ) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision is '{precision}': write one of {', '.join(PRECISIONS)}")
        if allow not in ("exact", "numerics"):
            raise ValueError(f"allow is '{allow}': write exact or numerics")
        admit.check(model, optimizer, scheduler)
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.device = guard.device_of(model)
        self.precision, self.normalize, self.allow = precision, normalize, allow
        if scaler is None and precision == "mixed_float16":
            scaler = torch.amp.GradScaler(self.device.type)
        self.budget = budget.Budget(self.device, memory)
        self.scaler = scaler if scaler is not None and scaler.is_enabled() else None
        updated = {id(parameter) for parameter in guard.parameters_of(optimizer)}
        self._others = [parameter for parameter in model.parameters() if id(parameter) not in updated]
        self._loss_modules = loss_state.modules_of(loss, model)
        self._light = guard.Light(model, self.scaler, self._loss_modules)
        self._update = Update(model, optimizer, clip, self.scaler, scheduler, self.budget)
        self._gradients = Gradients(model, loss, self.scaler, normalize, self.device)
        self._gradients.precision = precision
        self._rule: weigh.Rule | None = None
        self._refused: str | None = None
        self._sizes: dict[int, sizing.MicroBatch] = {}
        self._proposal: budget.Proposal | None = None
        self._learnt: learnt.Learnt | None = None
        #: Where a step may be the process's end: what says so to the next run.
        self._trial: Trial | None = None
        self._seen_ignored = False
        self._probed_at = -1
        self._start: Callable[[], None] | None = None
        self._compared = False
        self._named: set[str] = set()
        self._said: set[str] = set()
        #: Why the result is not exactly the full batch's, one sentence each.
        self.why: list[str] = []
        #: Updates, those taken in parts, attempts that ran out of memory, batches that held nothing to learn from.
        self.steps = self.split_steps = self.failures = self.skipped = 0
        atexit.register(_say_summary, weakref.ref(self))

    @property
    def exact(self) -> bool:
        """Whether the gradients were, up to rounding, those of the full batches."""
        return not self.why

    @property
    def size(self) -> int | None:
        """Samples that are taken at a time, of batches like the largest so far; None before the first."""
        return self._sizes[max(self._sizes)].size if self._sizes else None

    def __call__(self, batch: Any) -> float:
        """Trains on one batch, and gives its loss."""
        total = parts.rows(batch)
        if total == 0:
            raise ValueError("the batch has no samples")
        micro = self._micro(batch, total)
        repeated: set[int] = set()
        while True:
            size = min(micro.size, total)
            if size < total:
                size = max(size, norms.least(self.model, total)) if self._may_split(batch, total) else total
            bounds = sizing.parts(total, size)
            largest = max(end - begin for begin, end in bounds)
            if self._trial is not None:
                self._trial.begin(self._room, largest)
            try:
                value = self._attempt(batch, total, bounds)
            except _OtherLoss:
                self._refuse(total)
                continue
            if value is None:
                if self._trial is not None:
                    self._trial.end()
                self._again(micro, largest, total, repeated)
                continue
            self._succeeded(micro, largest, len(bounds), len(repeated))
            return value

    def _refuse(self, total: int) -> None:
        """After the parts of a batch whose loss is another one in other parts: nothing of them is left, and no batch is taken in parts now."""
        self._clear_gradients()
        self._light.put_back()
        self._refused = probe.NOT_A_SUM
        if self._trial is not None:
            self._trial.end()
        if self.split_steps:
            raise CannotSplit(f"the batch of {total} cannot be taken in parts, and was not trained with: {self._refused}")
        lines.say(f"step {self.steps + 1}: the batch is tried as a whole: {self._refused}")

    def _micro(self, batch: Any, total: int) -> sizing.MicroBatch:
        """The sizes for batches whose samples are about as large: others fail and grow by themselves."""
        elements = sum(tensor.numel() for tensor in parts.leaves(batch) if tensor.dim() > 0 and tensor.shape[0] == total) / total
        bucket = max(0, math.ceil(math.log2(max(1.0, elements))))
        micro = self._sizes.get(bucket)
        if micro is None and not self._sizes:
            micro = self._started(batch, total)
        elif micro is None:
            nearest = min(self._sizes, key=lambda known: abs(known - bucket))
            known = self._sizes[nearest]
            whole = known.size >= known.asked and bucket <= nearest
            size = None if whole else int(known.size * 2.0 ** min(0, nearest - bucket))
            micro = sizing.MicroBatch(max(total, known.asked), size, known.careful)
        self._sizes[bucket] = micro
        micro.ask(total)
        return micro

    def _started(self, batch: Any, total: int) -> sizing.MicroBatch:
        """The first size, and the line that says so."""
        room = self.budget.step_bytes(budget.own_bytes(self.model, self.optimizer))
        #: What others hold in the same memory.
        self._beside = (self.budget.all_bytes() or room) - room
        job = (self.model, self.loss, self.optimizer)
        self._learnt = start.known_before(self.model, self.optimizer, self.precision, batch, total)
        self._room = learnt.about(room)
        trial = Trial(self._learnt) if self.budget.footprint is not None else None
        killed = trial.last(self._room) if trial is not None else None
        proposal = start.first(*job, self.precision, batch, total, room, self._learnt)
        if self.allow == "numerics" and self.precision == "keep" and proposal.size < total:
            mixed = budget.propose(self.model, batch, self.loss, self.optimizer, "mixed_bfloat16", room)
            if mixed.size > proposal.size:
                self.precision = self._gradients.precision = "mixed_bfloat16"
                self.why.append(start.BFLOAT16)
                proposal = mixed
        self._proposal = proposal
        micro = sizing.MicroBatch(total, proposal.size)
        known = self._learnt.start(self._room)
        doubtful = trial is not None and start.is_doubtful(proposal, total)
        warily = doubtful and self.budget.all_bytes() is not None and not self._differs()
        split = (micro.size < total or warily) and self._may_split(batch, total)
        planned = proposal.plan is not None
        if split and trial is not None and (planned or self._learnt.too_large(self._room) is not None):
            micro.careful = self.budget.watches = True
            if planned and self.budget.all_bytes() is not None:
                # A mistake of the plan's would be the end: two steps with half as many say what they really take.
                micro.size = min(micro.size, known or max(1, micro.size // 2))
            micro.peaks[0] = self.budget.footprint.used_bytes()
        if split or not planned or doubtful:
            self._trial = trial
        size = max(micro.size, norms.least(self.model, total)) if split else total
        if split:
            self._note_reasons()
        need = proposal.need_bytes(max(end - begin for begin, end in sizing.parts(total, size)))
        self._update.tight = need is not None and need > 0.8 * proposal.room_bytes

        def say() -> None:
            result = self._result("not exactly the full batch's gradients") if self._compared else "gradients not verified"
            if killed is not None:
                lines.say(f"the last run was killed for memory with {killed} samples at a time")
            lines.say(lines.started(total, size, need, proposal.room_bytes, result))
            self._say_reasons()
            if self._refused is not None and micro.size < total:
                self._once(f"the batch is tried as a whole: {self._refused}")
            elif proposal.plan is None and micro.size == total:
                self._once("what a step needs could not be predicted: the batch is tried as a whole, and taken in parts if that fails")

        # Whether a forward pass changes buffers is seen in the first part: until then nothing is called the same.
        self._compared = not split or not self._light.others(norms.NORMS)
        self._start = say
        if self._compared:
            self._say_start()
        return micro

    def _say_start(self) -> None:
        say, self._start = self._start, None
        if say is not None:
            say()

    def _may_split(self, batch: Any, total: int) -> bool:
        """Whether the parts add up to the whole. Tried before the first split and now and then again: batches differ."""
        if self._refused is None:
            self._refused = hooks.within_backward(self.model, self.optimizer)
        if self._refused is not None:
            return False
        ignored = self.normalize is None and not self._seen_ignored and self._rule is weigh.SAMPLES and weigh.holds_ignored(batch)
        again = self._looks_closer and self._probed_at != self.split_steps
        if self._rule is not None and not ignored and not again:
            return True
        self._seen_ignored, self._probed_at = self._seen_ignored or ignored, self.split_steps
        out_of_memory = False
        before = self._rule
        candidates = [*([] if before is None else [before]), *weigh.rules(self.model, self.loss, self.normalize, batch)]
        self._clear_gradients()  # of the step before: they only take room
        try:
            settled = probe.settle(self.model, self.loss, candidates, batch, total, self._gradients)
            self._rule = settled.rule
            self.why += [reason for reason in settled.why if reason not in self.why]
            if settled.note is not None:
                self._once(settled.note)
        except probe.OtherNumber as error:
            if before is not None:
                return True  # it was taken in parts before: if this batch is at fault, its own error says more
            self._refused = str(error)
        except CannotSplit as error:
            if self.split_steps:
                raise CannotSplit(
                    f"{error}. {self.split_steps} earlier batches were taken in parts, and may have been weighted wrongly"
                ) from None
            self._refused = str(error)
        except Exception as error:
            if not failure.is_out_of_memory(error):
                raise
            failure.forget(error)
            out_of_memory = True
        if out_of_memory or self._keeps_blocks:
            # What was tried leaves blocks of its sizes behind, in the way of the parts'.
            self._clean()
        if out_of_memory:
            if before is None or ignored:  # else what an earlier batch has shown stands
                self._rule = candidates[0]
                self.why += [] if UNVERIFIED in self.why else [UNVERIFIED]
        elif UNVERIFIED in self.why and self._rule is before:
            self.why.remove(UNVERIFIED)
        return self._refused is None

    @property
    def _looks_closer(self) -> bool:
        """At the first split, and at the second, fourth, eighth … one."""
        return self.split_steps & (self.split_steps - 1) == 0

    def _attempt(self, batch: Any, total: int, bounds: list[tuple[int, int]]) -> float | None:
        """The loss after one update; None if memory ran out, with everything as before."""
        self._clear_gradients()
        self._light.take()
        # Where an attempt is likely to fail it is noted what was held before.
        before = budget.allocated_bytes(self.device) if len(bounds) > 1 or self.failures or not self.steps else None
        if len(bounds) > 1:
            self.budget.reset_peak()
        self._update.begin()
        text = None
        try:
            return self._run(batch, total, bounds)
        except BaseException as error:
            if not isinstance(error, Exception) or not failure.is_out_of_memory(error):
                if self._update.undone:
                    self._light.put_back()  # with the weights, what the parts changed
                raise
            text = failure.forget(error)
        # Outside of `except`: the error no longer holds the attempt's tensors.
        self.failures += 1
        self._text = text
        self._update.undo()
        self._clear_gradients()
        self._light.put_back()
        self._clean()
        held = 0 if before is None else budget.allocated_bytes(self.device) - before
        if held > 0:
            self._once(
                f"{memory.human(held)} of the failed attempt are still held: if this grows, something outside of the step keeps tensors"
            )
        return None

    def _run(self, batch: Any, total: int, bounds: list[tuple[int, int]]) -> float:
        split = len(bounds) > 1
        weights = self._gradients.weights(self._rule, batch, total, bounds)
        look = self._look if split and self._looks_closer else None
        kept = doubts.Outputs(total) if split and doubts.is_doubtful(self.loss) else None
        value = None if weights is None else self._gradients(batch, total, bounds, weights, look, kept)
        if value is not None and kept is not None and not self._gradients.adds_up(self._rule, batch, float(value), kept):
            raise _OtherLoss
        if value is None or (not split and self._gradients.learnt_nothing(batch, value)):
            self._clear_gradients()
            self.skipped += 1
            self._once("a batch held nothing that the loss counts: its update was skipped, where the full batch's would have been NaN")
            return math.nan
        if look is not None and self._light.random.drawn():
            self.why += [] if norms.RANDOM in self.why else [norms.RANDOM]
        self._update(split or self.failures > 0 or self.steps == 0)
        return float(value)

    def _look(self) -> None:
        """Whether the forward pass of a part has changed what a full batch's would have changed once."""
        changed = [name for name in self._light.changed(norms.NORMS) if name not in self._named]
        if changed:
            self._named.update(changed)
            self.why.append(norms.changes(changed))
        self._compared = True
        self._say_start()

    def _succeeded(self, micro: sizing.MicroBatch, largest: int, count: int, repeats: int) -> None:
        self.steps += 1
        if self._trial is not None:
            self._trial.went_well()
        self._say_reasons()
        peak = room = most = None
        if count > 1:
            self.split_steps += 1
            peak, room = self.budget.peak_bytes(), self.budget.all_bytes
            if self.device.type == "cuda":
                # One measured peak and the plan's bytes per sample: a second point until there is one.
                if self._proposal is not None and not micro.peaks:
                    each = self._proposal.sample_bytes(largest)
                    if each:
                        micro.peaks[largest // 2] = int(peak - each * (largest - largest // 2))
                most = lambda: self._planned_most(largest, peak)  # noqa: E731
            elif peak is not None:
                if micro.is_new:
                    peak = None  # what is started at a first step is in it, and is not needed again
                elif self._too_much(micro, largest, peak):
                    return
        if self._learnt is not None and largest > micro.good:
            self._learnt.good(self._room, largest)
            self._learnt.save()
        before = micro.size
        if micro.succeeded(largest, peak, room, most, repeats):
            lines.say(f"step {self.steps}: {micro.size} samples at a time from now on, {before} before: there is room")
            if self._keeps_blocks:
                # Those of the old sizes would lie in the way of the new ones.
                self._clean()

    def _planned_most(self, largest: int, peak_bytes: int) -> int | None:
        """How many samples at a time the plan says fit now, if it was right about those that were taken.

        Peaks alone do not say it: between what the optimizer holds there may be gaps that larger tensors do not fit into.
        """
        need = self._proposal.need_bytes(largest) if self._proposal is not None else None
        if need is None or abs(peak_bytes - self._beside - need) >= PLAN_IS_OFF * need:
            return None
        return self._proposal.most(self.budget.allocator_bytes() - self._beside)

    def _too_much(self, micro: sizing.MicroBatch, largest: int, peak_bytes: int) -> bool:
        """Whether the step took more than the host can do without, and so fewer samples are taken from now on."""
        limit = self.budget.all_bytes()
        if limit is None or peak_bytes <= limit or largest <= 1:
            return False
        size = micro.exceeded(largest, peak_bytes, limit)
        self._learnt.bad(self._room, largest)
        self._learnt.save()
        lines.say(f"step {self.steps} took {memory.human(peak_bytes)} of {memory.human(limit)}: {size} samples at a time from now on")
        return True

    def _again(self, micro: sizing.MicroBatch, largest: int, total: int, repeated: set[int]) -> None:
        """The same samples once more where that may help, else half as many at a time, or the reason why not."""
        self._say_start()
        if self._update.use_host_next:
            # The copy to fall back on was in the way: it moves out, and the samples stay.
            self._update.use_host_next = False
            lines.say(
                f"step {self.steps + 1}: the optimizer ran out of memory; its copy is in the host's memory from now on. Nothing was lost"
            )
            return
        in_update = self._update.failed_last and not repeated
        if largest not in repeated and (in_update or micro.repeats(largest)):
            # The same size gives the same numbers, with BatchNorm and dropout too; and fewer samples do not help an update.
            repeated.add(largest)
            what = "the optimizer ran" if in_update else f"{largest} samples at a time, which went well before, ran"
            lines.say(f"step {self.steps + 1}: {what} out of memory; the same once more. Nothing was lost")
            return
        least = norms.least(self.model, total)
        if self._learnt is not None:
            self._learnt.bad(self._room, largest)
            self._learnt.save()
        if self._refused is not None:
            raise CannotSplit(f"the batch of {total} ran out of memory ({self._text}), and it cannot be split: {self._refused}")
        if largest <= least:
            raise DoesNotFit(self._does_not_fit(least, total))
        size = max(micro.failed(largest), least)
        lines.say(f"step {self.steps + 1}: {largest} samples at a time ran out of memory; trying {size}. Nothing was lost")
        self._note_reasons()
        self._say_reasons()

    def _does_not_fit(self, least: int, total: int) -> str:
        fewest = "with one sample at a time" if least == 1 else f"with {least} samples at a time, the fewest for BatchNorm"
        where = "in the optimizer's step" if self._update.failed_last else fewest
        remedies = self._proposal.remedies() if self._proposal is not None else []
        then = f". What needs less: {'; '.join(remedies)}" if remedies else ". Give it more memory, or take a smaller model"
        return f"the batch of {total} does not fit, even {where} ({self._text}); nothing was changed{then}"

    def _result(self, otherwise: str) -> str:
        """What may be said of the gradients in a few words."""
        return SAME if self.exact else "gradients not verified" if self.why == [UNVERIFIED] else otherwise

    def _differs(self) -> list[str]:
        """Why parts would give another result than the whole."""
        every = (self.model, *self._loss_modules)
        reasons = ((norms.BATCH_NORM, norms.batch_norms), (norms.RANDOM, norms.draws))
        return [reason for reason, holds in reasons if any(map(holds, every))]

    def _note_reasons(self) -> None:
        self.why += [reason for reason in self._differs() if reason not in self.why]
        hooked = hooks.on_gradients(self.model, self.optimizer)
        self.why += [] if hooked is None or hooked in self.why else [hooked]

    def _say_reasons(self) -> None:
        for reason in self.why:
            if reason not in self._said:
                self._said.add(reason)
                lines.say(reason)

    def _once(self, text: str) -> None:
        kind = text.split(":")[-1]
        if kind not in self._said:
            self._said.add(kind)
            lines.say(text)

    def _clear_gradients(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        # Of parameters that the optimizer does not have, too: a failed attempt must leave none.
        for parameter in self._others:
            parameter.grad = None

    @property
    def _keeps_blocks(self) -> bool:
        """Whether an allocator keeps what is free for the next step: on a GPU."""
        return self.device.type == "cuda"

    def _clean(self) -> None:
        guard.release(self.device)

    def summary(self) -> str:
        """What happened so far, in one line."""
        words = [f"{self.steps} steps"]
        if self.split_steps:
            words.append(f"{self.split_steps} of them in parts, at last {self.size} samples at a time")
        if self.failures:
            words.append(f"{self.failures} attempts ran out of memory and were repeated")
        if self.skipped:
            words.append(f"{self.skipped} batches had nothing to learn from")
        words.append(
            SAME + " as the full batches" if self.exact else self._result("not exactly the full batches") + ": " + "; ".join(self.why)
        )
        return ", ".join(words)


def _say_summary(step: Any) -> None:
    found = step()
    if found is not None and found.steps:
        lines.say(found.summary())
