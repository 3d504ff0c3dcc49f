"""The training step that is captured when the user brings none.

In: what `plan` was told about loss, precision and accumulation. Out: a function of (model, optimizer, batch). Gradients are set to None
at the start of the step, as PyTorch does by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import torch

from . import replicas
from .inputs import call

AUTOCAST = {"mixed_bfloat16": torch.bfloat16, "mixed_float16": torch.float16}


class StandInLoss:
    """Says whether a loss had to be made up."""

    used = False


def training(loss: Any, precision: str, accumulate: int, stand_in: StandInLoss) -> Callable:
    """Forward, backward and the optimizer's step, over `accumulate` micro-batches."""
    amp = AUTOCAST.get(precision)

    def step(model: torch.nn.Module, optimizer: Any, batch: Any) -> None:
        # Both belong to one capture, as the copies of the model and the optimizer do.
        own = vars(optimizer).setdefault("_brimful", {})
        scaler = own.setdefault("scaler", torch.amp.GradScaler("cpu")) if amp == torch.float16 else None
        if isinstance(loss, torch.nn.Module) and "loss" not in own:
            own["loss"] = replicas.of_model(loss)[0]
        measure = own.get("loss", loss)
        optimizer.zero_grad(set_to_none=True)
        for piece in split(batch, accumulate):
            with torch.autocast("cuda", dtype=amp, enabled=amp is not None):
                outputs, left = call(model, piece, loss is None)
                value = loss_of(measure, outputs, piece, left, stand_in)
                if accumulate > 1:
                    value = value / accumulate
            (value if scaler is None else scaler.scale(value)).backward()
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()

    return step


def inference(precision: str) -> Callable:
    """Forward without gradients."""
    amp = AUTOCAST.get(precision)

    def step(model: torch.nn.Module, optimizer: Any, batch: Any) -> Any:
        with torch.no_grad(), torch.autocast("cuda", dtype=amp, enabled=amp is not None):
            return call(model, batch, False)[0]

    return step


def split(batch: Any, pieces: int) -> list:
    """The batch in micro-batches; what has no batch dimension goes with each."""
    if pieces == 1:
        return [batch]
    leaves, spec = torch.utils._pytree.tree_flatten(batch)
    size = next(leaf.shape[0] for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim() > 0)
    parts = [
        leaf.chunk(pieces) if isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == size else [leaf] * pieces
        for leaf in leaves
    ]
    return [torch.utils._pytree.tree_unflatten(list(piece), spec) for piece in zip(*parts)]


def loss_of(loss: Any, outputs: Any, inputs: Any, left: tuple, stand_in: StandInLoss) -> torch.Tensor:
    """The user's loss, the output's own, or one that stands for it."""
    if loss is not None:
        # PyTorch's losses take the target; a function of the user's takes all inputs.
        plain = isinstance(loss, torch.nn.Module) or getattr(loss, "__module__", None) == "torch.nn.functional"
        return loss(outputs, left[0]) if plain and left else loss(outputs, inputs)
    own = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    if isinstance(own, torch.Tensor):
        return own
    if isinstance(outputs, torch.Tensor) and outputs.dim() == 0:
        return outputs
    stand_in.used = True
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not tensors:
        raise ValueError("no output of the model depends on a trainable parameter: give loss=, or plan with mode='inference'")
    output = tensors[0]
    if left and isinstance(left[0], torch.Tensor) and left[0].dtype == torch.int64 and output.dim() >= 2:
        output, labels = classes_first(output, left[0])
        if labels.shape == (output.shape[0], *output.shape[2:]):
            return torch.nn.functional.cross_entropy(output, labels)
    return output.float().mean()


def classes_first(output: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs and labels as cross entropy takes them: where the classes are the last dimension, all others become one."""
    if output.dim() > 2 and labels.shape == output.shape[:-1] and labels.shape != (output.shape[0], *output.shape[2:]):
        return output.flatten(0, -2), labels.flatten()
    return output, labels
