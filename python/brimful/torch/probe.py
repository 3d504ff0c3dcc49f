"""Whether a batch may be taken in parts, tried on a few samples before the first split.

In: the model, the loss, the rules that may hold, a batch. Out: the rule that does, or `CannotSplit`. The model runs in evaluation mode,
without gradients where it can; random state, buffers and modes are as before. Six samples, chosen to differ, in parts of two and four
(fewer where there is no room for them): the loss of the whole must be the weighted sum of the parts', its slope with respect to the
outputs too, and the outputs of the parts the rows of the whole's. A model that draws random numbers in evaluation mode gives other
outputs each time: there only its loss is tried. Not seen: a coupling that shows in other samples only, or in training mode only,
BatchNorm apart, which is looked for elsewhere.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable

import torch

from brimful.fitting import CannotSplit, failure

from . import inputs as given
from . import loss_state, parts, steps
from .guard import Light, device_of, equal_numbers, release
from .weigh import IGNORED, Rule, Signed, leftover

#: Samples that are tried, and how many where those do not fit; of them in the first part.
SAMPLES, FEWER, FIRST = 6, (3, 2), 2
#: What rounding may change, relative to the largest value: kernels differ with the number of rows.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
HALF_TOLERANCE = 3e-2
#: Where the user lets products of float32 be computed with fewer digits.
REDUCED_TOLERANCE = 5e-3
#: Where the loss cannot be asked for its slope.
VALUES_ONLY = (
    "whether the parts add up was seen in the values of the loss, not in its slope: the loss is the model's own, the outputs are no "
    "tensors with one row for each sample, or there was no room"
)
NOISY = (
    "the model draws random numbers in evaluation mode too: it could not be tried out whether its outputs for some samples depend on others"
)

NOT_A_SUM = (
    "the loss of the batch is not the weighted sum of its parts' losses: either it couples samples, or it divides by something that "
    "is not known here. Give normalize=, a function of the batch that counts what the loss divides by"
)


class OtherNumber(CannotSplit):
    """The model or the loss failed with fewer samples than the batch has."""


@dataclass
class Settled:
    """The rule that holds, reasons why the result may not be exact, and what else to say."""

    rule: Rule
    why: tuple[str, ...] = ()
    note: str | None = None


@dataclass
class Apart:
    """The loss and its slope with respect to the outputs, for a part of the whole's outputs."""

    value: torch.Tensor
    slopes: list[torch.Tensor]


@dataclass
class Trial:
    """The losses of some samples as a whole and in parts, and whether the outputs of the parts were the rows of the whole's."""

    whole: torch.Tensor
    losses: list[torch.Tensor]
    few: Any
    pieces: list[Any]
    agree: bool
    tolerance: float
    #: Of the whole, then of each part; None where the loss cannot be asked.
    asked: list[Apart] | None


def settle(model: torch.nn.Module, loss: Any, candidates: list[Rule], batch: Any, total: int, place: Any = None) -> Settled:
    """The rule by which the parts' losses add up to the whole's. An out-of-memory error means that not even two samples could be tried."""
    if total < 2:
        raise CannotSplit("a batch of one sample cannot be split")
    for wanted in (SAMPLES, *FEWER):
        try:
            return _settled(model, loss, candidates, batch, total, place, min(wanted, total))
        except CannotSplit:
            raise
        except Exception as error:
            if not failure.is_out_of_memory(error):
                raise OtherNumber(f"the model does not take another number of samples ({failure.forget(error)})") from None
            if wanted == FEWER[-1]:
                raise
            failure.forget(error)
        # Outside of `except`: the error no longer holds what was tried.
        release(device_of(model))
    raise AssertionError("the last try returns or raises")


def _settled(model: torch.nn.Module, loss: Any, candidates: list[Rule], batch: Any, total: int, place: Any, wanted: int) -> Settled:
    few = parts.pick(batch, _different(batch, total, wanted), total)
    if place is not None and place.moves(batch):
        few = place.moved(few)
    with _as_before(model), loss_state.each_call_the_first(loss, model):
        variants = _variants(model, loss, few)
        kind = device_of(model).type
        trials = _with_all_digits(kind, lambda: _ungraphed(lambda: [_tried(model, loss, variant, wanted) for variant in variants]))
        fitting = _holding(candidates, trials)
        noisy = (fitting is None or not all(trial.agree for trial in trials)) and _is_noisy(model, loss, few, wanted, trials[0].tolerance)
    note = None if all(trial.asked is not None for trial in trials) else VALUES_ONLY
    if noisy:
        return _settled_in_noise(candidates, trials)
    if not all(trial.agree for trial in trials):
        raise CannotSplit(
            "the model's outputs for some samples depend on the others in the batch: in parts it would train another model. "
            "Take a smaller batch, or more memory"
        )
    if fitting is None:
        raise CannotSplit(NOT_A_SUM)
    return Settled(fitting, note=note)


def _with_all_digits(kind: str, run: Callable[[], Any]) -> Any:
    """Without the user's autocast where that works: it leaves three digits, with which almost any sum adds up, or none does."""
    return _preferably(torch.autocast(kind, enabled=False), run, Exception) if torch.is_autocast_enabled(kind) else run()


def _ungraphed(run: Callable[[], Any]) -> Any:
    """Without a graph where that works: hooks on tensors, and gradients inside of a loss, need one."""
    return _preferably(torch.no_grad(), run, RuntimeError)


def _preferably(context: Any, run: Callable[[], Any], refusal: type[Exception]) -> Any:
    """In this context; outside of it where it is refused there, but not for want of memory."""
    try:
        with context:
            return run()
    except refusal as error:
        if failure.is_out_of_memory(error):
            raise
        failure.forget(error)
    return run()


def _holding(candidates: list[Rule], trials: list[Trial]) -> Rule | None:
    return next((rule for rule in candidates if all(_adds_up(rule, trial) for trial in trials)), None)


def _is_noisy(model: torch.nn.Module, loss: Any, few: Any, total: int, tolerance: float) -> bool:
    """Whether the same samples give other outputs, or another loss, the second time: then a difference of parts says nothing."""
    (outputs, value), (again, second) = _ungraphed(lambda: (forward(model, loss, few), forward(model, loss, few)))
    if not _rows_agree(outputs, again, 0, total, total, tolerance):
        return True
    return not abs(float(value) - float(second)) <= tolerance * max(1e-12, abs(float(value)))


def _settled_in_noise(candidates: list[Rule], trials: list[Trial]) -> Settled:
    """The rule by which the loss of the whole's own outputs adds up, where the outputs differ from run to run."""
    steady = [trial for trial in trials if trial.asked is not None and equal_numbers(trial.asked[0].value, trial.whole)]
    if len(steady) < len(trials):
        return Settled(candidates[0], (NOISY,), VALUES_ONLY)
    for trial in steady:
        trial.losses = [apart.value for apart in trial.asked[1:]]
    rule = _holding(candidates, steady)
    if rule is None:
        raise CannotSplit(NOT_A_SUM)
    return Settled(rule, (NOISY,))


def _tried(model: torch.nn.Module, loss: Any, few: Any, total: int) -> Trial:
    """Runs the whole and its parts. Outputs may be large: the whole's, one part's and the loss's slope are kept at a time."""
    first = min(FIRST, total - 1)
    bounds = [(0, first), (first, total)]
    pieces = [parts.take(few, begin, end, total) for begin, end in bounds]
    outputs, left = called(model, loss, few)
    whole = valued(loss, outputs, few, left)
    asked = _asked(model, loss, outputs, few, [(0, total), *bounds], total)
    # Models of transformers compute the loss in float32, whatever their weights are.
    kinds = {whole.dtype, *(p.dtype for p in model.parameters() if p.is_floating_point())}
    # Under autocast, the user's or one inside of the model, results have fewer digits than weights.
    kinds |= {tensor.dtype for tensor in parts.leaves(_tensors(outputs)) if tensor.is_floating_point()}
    kind = device_of(model).type
    tolerance = _tolerance(kinds | ({torch.get_autocast_dtype(kind)} if torch.is_autocast_enabled(kind) else set()))
    losses, agree = [], True
    for (begin, _), piece in zip(bounds, pieces):
        apart, value = forward(model, loss, piece)
        losses.append(value.detach())
        agree = agree and _rows_agree(outputs, apart, begin, parts.rows(piece), total, tolerance)
        del apart, value
    return Trial(whole.detach(), losses, few, pieces, agree, tolerance, asked)


def _asked(model: torch.nn.Module, loss: Any, outputs: Any, few: Any, bounds: list[tuple[int, int]], total: int) -> list[Apart] | None:
    """The loss and its slope for rows of the whole's outputs; nothing goes back through the model. None where that cannot be."""
    if loss is None:
        return None
    found = []
    for begin, end in bounds:
        leaves: list[torch.Tensor] = []
        piece = parts.take(few, begin, end, total)
        try:
            with torch.enable_grad():
                rows = _rows_of(outputs, begin, end, total, leaves)
                value = valued(loss, rows, piece, leftover(model, piece, False))
                slopes = torch.autograd.grad(value, leaves, allow_unused=True) if leaves and value.requires_grad else ()
        except Exception as error:
            if failure.is_out_of_memory(error) and total > FEWER[-1]:
                raise
            failure.forget(error)
            return None  # no room, or a loss that looks for more than values in the outputs
        if all(slope is None or _is_too_small(slope) for slope in slopes):
            return None
        found.append(Apart(value.detach(), [leaf.new_zeros(leaf.shape) if one is None else one for leaf, one in zip(leaves, slopes)]))
    return found


def _is_too_small(slope: torch.Tensor) -> bool:
    """Whether float16 has no digits left for it."""
    return slope.dtype == torch.float16 and float(slope.abs().max()) < torch.finfo(torch.float16).tiny


def _rows_of(outputs: Any, begin: int, end: int, total: int, leaves: list[torch.Tensor]) -> Any:
    """The outputs of some samples, cut off from the model; those that have a slope are added to `leaves`."""
    if isinstance(outputs, torch.Tensor):
        if outputs.dim() == 0:
            return outputs.detach()
        if outputs.shape[0] != total:
            raise ValueError("an output without one row for each sample")
        rows = outputs[begin:end].detach().clone()
        if rows.is_floating_point() or rows.is_complex():
            leaves.append(rows.requires_grad_())
        return rows
    if isinstance(outputs, Mapping):
        # Models of transformers give mappings whose entries are attributes too.
        same = copy.copy(outputs)
        for name, value in outputs.items():
            same[name] = _rows_of(value, begin, end, total, leaves)
        return same
    if isinstance(outputs, (tuple, list)):
        every = [_rows_of(value, begin, end, total, leaves) for value in outputs]
        return type(outputs)(*every) if hasattr(outputs, "_fields") else type(outputs)(every)
    if outputs is None or isinstance(outputs, (bool, int, float, str)):
        return outputs
    raise ValueError("an output that is no tensor")


def forward(model: torch.nn.Module, loss: Any, piece: Any) -> tuple[Any, torch.Tensor]:
    """The outputs and the loss, by the conventions of `brimful.plan`."""
    outputs, left = called(model, loss, piece)
    return outputs, valued(loss, outputs, piece, left)


def called(model: torch.nn.Module, loss: Any, piece: Any) -> tuple[Any, tuple]:
    return given.call(Signed(model, model), piece, loss is None)


def valued(loss: Any, outputs: Any, piece: Any, left: tuple) -> torch.Tensor:
    """One number: the loss."""
    stand_in = steps.StandInLoss()
    value = steps.loss_of(loss, outputs, piece, left, stand_in)
    if stand_in.used:
        raise ValueError(
            "no loss was given and the model's output has none: give loss=, a function of (outputs, batch) or one of PyTorch's"
        )
    if not isinstance(value, torch.Tensor) or value.dim() != 0:
        shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise ValueError(f"the loss gave {shape}: it must give one number, as with reduction='mean'")
    return value


def _variants(model: torch.nn.Module, loss: Any, few: Any) -> list[Any]:
    """The samples as they are; and for models that bring their own loss once more with labels masked, which tells the rules apart."""
    labels = few.get("labels") if isinstance(few, Mapping) else None
    own = loss is None and hasattr(model, "config") and isinstance(labels, torch.Tensor) and labels.dtype == torch.int64
    # Elsewhere -100 need not mean anything, and a GPU does not survive an index that is out of range.
    if not own or labels.dim() < 2 or labels.shape[1] < 2:
        return [few]
    masked = labels.clone()
    for row in range(masked.shape[0]):
        # Row by row another share; of every other row the first label too.
        masked[row, row % 2 :: 2 + row % 3] = IGNORED
    return [few, {**few, "labels": masked}]


def _adds_up(rule: Rule, trial: Trial) -> bool:
    whole = float(trial.whole)
    if not math.isfinite(whole):
        return True  # nothing that counts among these samples: they say nothing
    counts = rule.counts(trial.pieces)
    total = sum(counts)
    if rule.count is not None:
        if total == 0:
            return True
        expected = rule.counts([trial.few])[0]
        if not math.isclose(expected, total, rel_tol=trial.tolerance):
            return False
    weights = rule.weights(counts)
    values = [(weight, float(value)) for weight, value in zip(weights, trial.losses) if weight != 0]
    scale = max([1e-12, abs(whole), *(abs(value) for _, value in values)])
    if not abs(sum(weight * value for weight, value in values) - whole) <= trial.tolerance * scale:
        return False
    return trial.asked is None or _slopes_add_up(weights, trial.asked, trial.tolerance)


def _slopes_add_up(weights: list[float], asked: list[Apart], tolerance: float) -> bool:
    """Whether the weighted slopes of the parts are the rows of the whole's. A value may add up by chance, as roots of means do."""
    largest = max([1e-30, *(float(slope.abs().nan_to_num(0.0, 0.0).max()) for slope in asked[0].slopes if slope.numel())])
    begins = [0] * len(asked[0].slopes)
    for weight, apart in zip(weights, asked[1:]):
        for index, slope in enumerate(apart.slopes):
            rows = asked[0].slopes[index][begins[index] : begins[index] + len(slope)]
            begins[index] += len(slope)
            # A part in which nothing counts has no loss, and takes no part.
            difference = (rows if weight == 0 else slope * weight - rows).abs().where(rows.isfinite(), 0.0)
            if difference.numel() and not float(difference.max()) <= tolerance * largest:
                return False
    return True


def _rows_agree(whole: Any, piece: Any, begin: int, rows: int, total: int, tolerance: float) -> bool:
    """Whether a part's outputs are the whole's rows from `begin` on, for every output that has a row for each sample."""
    every = [list(parts.leaves(_tensors(outputs))) for outputs in (whole, piece)]
    if len(every[0]) != len(every[1]):
        return True  # outputs without a fixed form say nothing: the loss decides
    for together, apart in zip(*every):
        if together.shape[:1] != (total,) or apart.shape != (rows, *together.shape[1:]):
            continue
        if not together.is_floating_point() or together.numel() == 0:
            continue
        # Row by row: in float64 the whole would take more memory than the model's own pass.
        largest, difference = 0.0, 0.0
        for index in range(total):
            row = together[index].detach().to(torch.float64)
            finite = row.isfinite()
            largest = max(largest, float(row.where(finite, row.new_zeros(())).abs().max()))
            if begin <= index < begin + rows:
                apart_by = (apart[index - begin].detach().to(torch.float64) - row).where(finite, row.new_zeros(())).abs().max()
                difference = max(difference, float(apart_by.nan_to_num(nan=math.inf)))
        if not difference <= tolerance * max(1e-12, largest):
            return False
    return True


def _tensors(outputs: Any) -> Any:
    """Outputs as containers: models of transformers give objects that are mappings already; caches and the like are left out."""
    return outputs if isinstance(outputs, (torch.Tensor, Mapping, tuple, list)) else ()


def _different(batch: Any, total: int, wanted: int) -> list[int]:
    """Samples that differ: first some with the least in a tensor, last some with the most, so that the two parts are unlike."""
    least: list[int] = []
    most: list[int] = []
    # Labels and masks come last in most batches, and tell more than inputs do.
    for tensor in reversed(list(parts.leaves(batch))):
        if tensor.dim() == 0 or tensor.shape[0] != total or tensor.is_complex() or tensor.numel() == 0:
            continue
        sums = tensor.detach().reshape(total, -1)[:, : 1 << 16].sum(1, dtype=torch.float64)
        least.append(int(sums.argmin()))
        most.append(int(sums.argmax()))
    last = list(dict.fromkeys(most))[: max(1, wanted - FIRST)]
    first = [row for row in dict.fromkeys([*least, *range(min(total, 2 * SAMPLES))]) if row not in last]
    return first[: wanted - len(last)] + last if len(last) < wanted else list(range(wanted))


def _tolerance(kinds: set[torch.dtype]) -> float:
    found = max(TOLERANCE.get(kind, HALF_TOLERANCE) for kind in kinds)
    return found if torch.get_float32_matmul_precision() == "highest" else max(found, REDUCED_TOLERANCE)


@contextlib.contextmanager
def _as_before(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode, full precision of convolutions, and afterwards everything as it was."""
    light = Light(model)
    light.take()
    training = [module for module in model.modules() if module.training]
    cudnn = torch.backends.cudnn
    try:
        for module in training:
            module.training = False
        with contextlib.ExitStack() as stack:
            if light.device.type == "cuda":
                with contextlib.suppress(RuntimeError):  # the user has set it by the other of PyTorch's two ways
                    stack.enter_context(cudnn.flags(enabled=cudnn.enabled, benchmark=False, deterministic=True, allow_tf32=False))
            yield
    finally:
        for module in training:
            module.training = True
        light.put_back()
