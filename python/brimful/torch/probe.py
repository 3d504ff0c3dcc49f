"""Whether a batch may be taken in parts, tried on a few samples before the first split.

In: the model, the loss, the rules that may hold, a batch. Out: the rule that does, or `CannotSplit`. The model runs in evaluation mode,
without gradients where it can; random state, buffers and modes are as before. Six samples, chosen to differ, in parts of two and four
(fewer where there is no room for them): the loss of the whole must be the weighted sum of the parts', and the outputs of the parts the
rows of the whole's. Not seen: a coupling that shows in other samples only, or in training mode only, BatchNorm apart, which is looked
for elsewhere.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from brimful.fitting import CannotSplit, failure

from . import inputs as given
from . import parts, steps
from .guard import Light, device_of, release
from .weigh import IGNORED, Rule, Signed

#: Samples that are tried, and how many where those do not fit; of them in the first part.
SAMPLES, FEWER, FIRST = 6, (3, 2), 2
#: What rounding may change, relative to the largest value: kernels differ with the number of rows.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
HALF_TOLERANCE = 3e-2
#: Where the user lets products of float32 be computed with fewer digits.
REDUCED_TOLERANCE = 5e-3


@dataclass
class Trial:
    """The losses of some samples as a whole and in parts, and whether the outputs of the parts were the rows of the whole's."""

    whole: torch.Tensor
    losses: list[torch.Tensor]
    few: Any
    pieces: list[Any]
    agree: bool
    tolerance: float


def settle(model: torch.nn.Module, loss: Any, candidates: list[Rule], batch: Any, total: int, place: Any = None) -> Rule:
    """The rule by which the parts' losses add up to the whole's. An out-of-memory error means that not even two samples could be tried."""
    if total < 2:
        raise CannotSplit("a batch of one sample cannot be split")
    for wanted in (SAMPLES, *FEWER):
        try:
            return _settled(model, loss, candidates, batch, total, place, min(wanted, total))
        except Exception as error:
            if not failure.is_out_of_memory(error) or wanted == FEWER[-1]:
                raise
            failure.forget(error)
        # Outside of `except`: the error no longer holds what was tried.
        release(device_of(model))
    raise AssertionError("the last try returns or raises")


def _settled(model: torch.nn.Module, loss: Any, candidates: list[Rule], batch: Any, total: int, place: Any, wanted: int) -> Rule:
    few = parts.pick(batch, _different(batch, total, wanted), total)
    if place is not None and place.moves(batch):
        few = place.moved(few)
    with _as_before(model):
        try:
            with torch.no_grad():
                trials = [_tried(model, loss, variant, wanted) for variant in _variants(model, loss, few)]
        except RuntimeError as error:
            # Hooks on tensors and gradients inside of a loss need a graph.
            if failure.is_out_of_memory(error):
                raise
            trials = [_tried(model, loss, variant, wanted) for variant in _variants(model, loss, few)]
    if not all(trial.agree for trial in trials):
        raise CannotSplit(
            "the model's outputs for some samples depend on the others in the batch: in parts it would train another model. "
            "Take a smaller batch, or more memory"
        )
    for rule in candidates:
        if all(_adds_up(rule, trial) for trial in trials):
            return rule
    raise CannotSplit(
        "the loss of the batch is not the weighted sum of its parts' losses: either it couples samples, or it divides by something that "
        "is not known here. Give normalize=, a function of the batch that counts what the loss divides by"
    )


def _tried(model: torch.nn.Module, loss: Any, few: Any, total: int) -> Trial:
    """Runs the whole and its parts. Outputs may be large: no more than the whole's and one part's are kept at a time."""
    first = min(FIRST, total - 1)
    bounds = [(0, first), (first, total)]
    pieces = [parts.take(few, begin, end, total) for begin, end in bounds]
    outputs, whole = forward(model, loss, few)
    # Models of transformers compute the loss in float32, whatever their weights are.
    tolerance = _tolerance({whole.dtype, *(p.dtype for p in model.parameters() if p.is_floating_point())})
    losses, agree = [], True
    for (begin, _), piece in zip(bounds, pieces):
        apart, value = forward(model, loss, piece)
        losses.append(value.detach())
        agree = agree and _rows_agree(outputs, apart, begin, parts.rows(piece), total, tolerance)
        del apart, value
    return Trial(whole.detach(), losses, few, pieces, agree, tolerance)


def forward(model: torch.nn.Module, loss: Any, piece: Any) -> tuple[Any, torch.Tensor]:
    """The outputs and the loss, by the conventions of `brimful.plan`."""
    outputs, left = given.call(Signed(model, model), piece, loss is None)
    stand_in = steps.StandInLoss()
    value = steps.loss_of(loss, outputs, piece, left, stand_in)
    if stand_in.used:
        raise ValueError(
            "no loss was given and the model's output has none: give loss=, a function of (outputs, batch) or one of PyTorch's"
        )
    if not isinstance(value, torch.Tensor) or value.dim() != 0:
        shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise ValueError(f"the loss gave {shape}: it must give one number, as with reduction='mean'")
    return outputs, value


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
    values = [(weight, float(value)) for weight, value in zip(rule.weights(counts), trial.losses) if weight != 0]
    scale = max([1e-12, abs(whole), *(abs(value) for _, value in values)])
    return abs(sum(weight * value for weight, value in values) - whole) <= trial.tolerance * scale


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
