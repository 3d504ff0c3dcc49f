"""What the plan says about a Keras job: whether the batch fits, and how many samples at a time do.

In: a model, a batch and the room. Out: a proposal, which the first step verifies. The plan is that of Keras on TensorFlow; on other
backends it is a first guess. A model that has no description (a subclass) has no plan: nothing is proposed.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import keras
from keras import tree

from brimful import _native
from brimful.fitting import sizing

from . import batches

#: The plan takes a few bytes for a number without its unit.
LEAST_BYTES = 1 << 20


@dataclass
class Proposal:
    """How many samples at a time, and what that needs."""

    size: int | None = None
    predicted_bytes: int | None = None
    #: What one sample needs at the very least, where the plan knows.
    least_bytes: int | None = None
    remedies: list[str] = field(default_factory=list)
    #: Whether fewer are taken than were asked for because memory is short, as the plan or the compiler says.
    tight: bool = False
    #: Whether the framework's compiler says so: it knows what it will run.
    compiled: bool = False


def _variables_bytes(variables: list) -> int:
    return sum(batches.bytes_of(variable) for variable in variables)


def own_bytes(model: Any, training: bool, kept: dict) -> int:
    """What the model's variables hold already; the plan counts them itself.

    kept: what earlier calls found out. Large models have thousands of variables.
    """
    variables = list(model.variables)
    if training and model.optimizer is not None:
        variables += list(model.optimizer.variables)
    known = ("own", training, len(variables))
    if known not in kept:
        kept[known] = _variables_bytes(variables)
    return kept[known]


def propose(model: Any, rows: int, data: Any, room_bytes: int, training: bool, job: Any = None, kept: dict | None = None) -> Proposal:
    """The largest part of the batch that fits into the room, as the plan says, or the framework's compiler where it knows better.

    room_bytes: what this job may hold, its variables included and what others hold left out.
    kept: plans of earlier calls, by batch. One that fitted as a whole and still does is not made again: that may take longer than a step.
    """
    kept = {} if kept is None else kept
    batch = (training, *(tuple(leaf.shape) for leaf in tree.flatten(data) if hasattr(leaf, "shape")))
    proposal = kept.get(batch)
    if proposal is None or proposal.size != rows or (proposal.predicted_bytes or 0) > room_bytes:
        proposal = kept[batch] = _planned(model, rows, data, room_bytes, training)
    if job is not None:
        job.backend.join(copies(model, rows, proposal, room_bytes, kept))
        limit = job.limit_bytes()
        if job.footprint is not None and job.wanted_bytes is None:
            # The compiler counts what its programs hold, not the gaps between them in the process's heap.
            limit = int(limit * (1 - sizing.HEAP_MARGIN)) - job.used_bytes()
        size = job.backend.proposed(job, data, rows, proposal.size, limit)
        if size is not None and size != proposal.size:
            proposal = Proposal(size, remedies=proposal.remedies, tight=size < rows, compiled=True)
        elif size is not None:
            proposal = replace(proposal, compiled=True)
    return proposal


def _planned(model: Any, rows: int, data: Any, room_bytes: int, training: bool) -> Proposal:
    described = description(model)
    if described is None:
        return Proposal()
    asked = {
        "optimizer": _optimizer(model) if training else None,
        "device": "cpu",
        "inference": not training,
    }
    try:
        whole = _plan(described, {**asked, "batch": rows, "memory_bytes": max(room_bytes, LEAST_BYTES)})
        if whole["verdict"] != "does_not_fit":
            return Proposal(rows, whole["peak"]["high_bytes"] or whole["peak"]["device_bytes"])
        # In parts the whole batch waits beside them, and the next one, unless they are still arrays; and the gradients of the parts before.
        beside = 2 * batches.bytes_of(data, arrays=False) + (_variables_bytes(model.trainable_variables) if training else 0)
        parts = _plan(described, {**asked, "batch": rows, "memory_bytes": max(room_bytes - beside, LEAST_BYTES)})
        # The optimizer's update can be done with less than Keras takes for it: where that is the peak, the try decides.
        in_update = not parts["max_batch"] and parts["peak"]["at"]["phase"] not in ("forward", "backward")
        size = rows if in_update else min(rows, parts["max_batch"] or 1)
        one = _plan(described, {**asked, "batch": size, "memory_bytes": max(room_bytes - beside, LEAST_BYTES)})
    except (ValueError, KeyError, TypeError):
        return Proposal()
    proposal = Proposal(size, None if in_update else one["peak"]["device_bytes"] + beside, tight=size < rows)
    proposal.remedies = [remedy["title"] for remedy in whole["remedies"] if remedy["id"] not in ("micro_batches", "smaller_batch")]
    if not parts["max_batch"] and not in_update:
        proposal.least_bytes = one["peak"].get("floor_bytes") or one["peak"]["low_bytes"]
    return proposal


def copies(model: Any, rows: int, proposal: Proposal, room_bytes: int, kept: dict) -> int:
    """How many times the weights and the optimizer's state fit beside the step of a whole batch."""
    if proposal.size != rows or proposal.predicted_bytes is None:
        return 0
    return max(0, room_bytes - proposal.predicted_bytes) // max(1, own_bytes(model, True, kept))


def _plan(described: str, request: dict) -> dict:
    return json.loads(_native.keras_plan(described, json.dumps(request)))


def description(model: Any) -> str | None:
    """What Keras writes of a model's layers; None for one that has no such text."""
    # A loop of one's own wraps the user's model.
    model = getattr(model, "brimful_inner", model)
    # What Keras says about files that nobody wants to write, such as that a loss is a lambda, is not the user's concern.
    with tensorflow_left_alone(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return model.to_json()
        except Exception:  # noqa: BLE001 -- whatever a user's get_config raises
            pass
        # On JAX the optimizer has no values to be written down while Keras trains.
        model.__dict__["get_compile_config"] = lambda: None
        try:
            return model.to_json()
        except Exception:  # noqa: BLE001
            return None
        finally:
            del model.__dict__["get_compile_config"]


@contextlib.contextmanager
def tensorflow_left_alone() -> Iterator[None]:
    """Keras asks of all that it writes down whether it is one of TensorFlow's types, and loads TensorFlow for the question: seconds, and
    hundreds of megabytes. Where nobody has loaded it, nothing can be of its types."""
    lazy = getattr(sys.modules.get("keras.src.utils.module_utils"), "tensorflow", None)
    if "tensorflow" in sys.modules or getattr(lazy, "_available", False) is not None:
        yield
        return
    lazy._available = False
    try:
        yield
    finally:
        lazy._available = None


def _optimizer(model: Any) -> str | None:
    optimizer = model.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    name = type(optimizer).__name__.lower()
    known = {kind.__name__.lower() for kind in vars(keras.optimizers).values() if isinstance(kind, type)}
    return name if name in known else None


def signature(model: Any, data: Any, training: bool) -> dict:
    """What makes another run the same job."""
    leaves = [leaf for leaf in tree.flatten(data) if leaf is not None]
    return {
        "keras": keras.__version__,
        "backend": keras.backend.backend(),
        "model": type(getattr(model, "brimful_inner", model)).__name__,
        "weights": [[list(weight.shape), str(weight.dtype), bool(weight.trainable)] for weight in model.weights],
        "layers": [type(layer).__name__ for layer in model._flatten_layers()],
        "optimizer": type(model.optimizer).__name__ if training else None,
        "policies": sorted({str(layer.dtype_policy.name) for layer in model._flatten_layers() if hasattr(layer, "dtype_policy")}),
        "inputs": [[[int(size) for size in leaf.shape[1:]], str(leaf.dtype)] for leaf in leaves if hasattr(leaf, "shape")],
        "jit": str(model.jit_compile),
        "training": training,
    }
