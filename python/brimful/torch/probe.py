"""Whether a batch may be taken in parts, tried on a few samples before the first split.

In: the model, the loss, the rules that may hold, a batch. Out: the rule that does, or `CannotSplit`. The model runs in evaluation mode,
without gradients where it can; random state, buffers and modes are as before. Six samples, chosen to differ, in parts of two and four: the loss of the
whole must be the weighted sum of the parts', and the outputs of the parts the rows of the whole's. Not seen: a coupling that shows in
other samples only, or in training mode only, BatchNorm apart, which is looked for elsewhere.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from brimful.fitting import CannotSplit
from brimful.fitting.failure import is_out_of_memory

from . import inputs as given
from . import parts, steps
from .guard import Light
from .weigh import IGNORED, Rule, Signed

SAMPLES, FIRST = 6, 2
#: What rounding may change, relative to the largest value: kernels differ with the number of rows.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
HALF_TOLERANCE = 3e-2
#: Where the user lets products of float32 be computed with fewer digits.
REDUCED_TOLERANCE = 5e-3


def settle(model: torch.nn.Module, loss: Any, candidates: list[Rule], batch: Any, total: int, place: Any = None) -> Rule:
    """The rule by which the parts' losses add up to the whole's."""
    if total < 2:
        raise CannotSplit("a batch of one sample cannot be split")
    chosen = _different(batch, total)
    few = parts.pick(batch, chosen, total)
    if place is not None and place.moves(batch):
        few = place.moved(few)
    with _as_before(model):
        try:
            with torch.no_grad():
                trials = [_tried(model, loss, variant, len(chosen)) for variant in _variants(model, loss, few)]
        except RuntimeError as error:
            # Hooks on tensors and gradients inside of a loss need a graph.
            if is_out_of_memory(error):
                raise
            trials = [_tried(model, loss, variant, len(chosen)) for variant in _variants(model, loss, few)]
    # Models of transformers compute the loss in float32, whatever their weights are.
    tolerance = _tolerance({trials[0][0][1].dtype, *(p.dtype for p in model.parameters() if p.is_floating_point())})
    for whole, pieces, _, _ in trials:
        if not _outputs_agree(whole[0], [piece[0] for piece in pieces], len(chosen), tolerance):
            raise CannotSplit(
                "the model's outputs for some samples depend on the others in the batch: in parts it would train another model. "
                "Take a smaller batch, or more memory"
            )
    for rule in candidates:
        if all(_adds_up(rule, trial, tolerance) for trial in trials):
            return rule
    raise CannotSplit(
        "the loss of the batch is not the weighted sum of its parts' losses: either it couples samples, or it divides by something that "
        "is not known here. Give normalize=, a function of the batch that counts what the loss divides by"
    )


def _tried(model: torch.nn.Module, loss: Any, few: Any, total: int) -> tuple:
    """The outputs and losses of the whole and of its parts, and the parts."""
    pieces = [parts.take(few, 0, min(FIRST, total - 1), total), parts.take(few, min(FIRST, total - 1), total, total)]
    return forward(model, loss, few), [forward(model, loss, piece) for piece in pieces], few, pieces


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


def _adds_up(rule: Rule, trial: tuple, tolerance: float) -> bool:
    (_, whole), results, few, pieces = trial
    if not math.isfinite(float(whole.detach())):
        return True  # nothing that counts among these samples: they say nothing
    counts = rule.counts(pieces)
    total = sum(counts)
    if rule.count is not None:
        if total == 0:
            return True
        expected = rule.counts([few])[0]
        if not math.isclose(expected, total, rel_tol=tolerance):
            return False
    values = [(weight, float(value.detach())) for weight, (_, value) in zip(rule.weights(counts), results) if weight != 0]
    scale = max([1e-12, abs(float(whole.detach())), *(abs(value) for _, value in values)])
    return abs(sum(weight * value for weight, value in values) - float(whole.detach())) <= tolerance * scale


def _outputs_agree(whole: Any, pieces: list[Any], total: int, tolerance: float) -> bool:
    """Whether the rows of the whole are those of the parts, for every output that has a row for each sample."""
    every = [list(parts.leaves(_tensors(outputs))) for outputs in (whole, *pieces)]
    if any(len(tensors) != len(every[0]) for tensors in every):
        return True  # outputs without a fixed form say nothing: the loss decides
    for together, *apart in zip(*every):
        rows = [piece.shape[0] if piece.dim() else 0 for piece in apart]
        if together.dim() == 0 or together.shape[0] != total or sum(rows) != total or not together.is_floating_point():
            continue
        if any(piece.shape[1:] != together.shape[1:] for piece in apart):
            continue
        joined = torch.cat(apart).detach().to(torch.float64)
        together = together.detach().to(torch.float64)
        finite = together.isfinite()
        if not finite.any():
            continue
        difference = (joined - together)[finite].abs().max()
        if not float(difference) <= tolerance * max(1e-12, float(together[finite].abs().max())):
            return False
    return True


def _tensors(outputs: Any) -> Any:
    """Outputs as containers: models of transformers give objects that are mappings already; caches and the like are left out."""
    return outputs if isinstance(outputs, (torch.Tensor, Mapping, tuple, list)) else ()


def _different(batch: Any, total: int) -> list[int]:
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
    last = list(dict.fromkeys(most))[: SAMPLES - FIRST]
    first = [row for row in dict.fromkeys([*least, *range(min(total, 2 * SAMPLES))]) if row not in last]
    wanted = min(total, SAMPLES)
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
