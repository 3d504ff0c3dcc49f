"""`brimful.plan` for PyTorch models.

In: what the user says about the job. Out: a `Plan`. Two captures, of the batch asked for and of twice as much, give sizes as functions
of the batch; everything after that is arithmetic in Rust.
"""

from __future__ import annotations

import json
from typing import Any, Callable

import torch

from brimful import _native

from . import capture, devices, optimizers, steps
from . import inputs as given
from .recorder import Strings
from .result import Plan

PRECISIONS = ("keep", "mixed_bfloat16", "mixed_float16", "bfloat16", "float16", "float32")
# Nine of ten measured peaks lie within this share of the prediction (docs/accuracy.md): a batch that is proposed leaves so much room.
WIDEN = 0.02
# What a compiled step needs differs from the eager one by what the compiler fuses, recomputes and pads.
# Ten measured jobs, of which none needed more, and the one with most to fuse 40 % less.
COMPILE_WIDEN, COMPILE_LOWER = 0.1, 0.4


class PlanError(RuntimeError):
    """The step could not be run at all on tensors without data."""


def plan(
    model: torch.nn.Module,
    inputs: Any,
    *,
    loss: Callable | None = None,
    optimizer: Any = "adamw",
    precision: str = "keep",
    batch: int | None = None,
    device: str | None = None,
    memory: str | int | None = None,
    mode: str = "train",
    accumulate: int = 1,
    compile: bool = False,
    step: Callable | None = None,
    alloc_conf: str | None = None,
) -> Plan:
    """Predict the GPU memory of a training step, without a GPU.

    model: any module, on any device, also on ``meta``; it is not touched.
    inputs: an example batch (a tensor, a tuple or a dict of tensors) or its shapes. The first dimension is the batch. What the
        model's forward does not take is left for the loss.
    loss: a function of (outputs, inputs), or one of PyTorch's losses, which gets the outputs and the labels; by default the output's
        own ``.loss``.
    optimizer: an optimizer, its class, its name, or a function of the parameters.
    precision: ``keep``, ``mixed_bfloat16``, ``mixed_float16`` (autocast, the latter with a GradScaler), or a dtype for all weights.
    batch: the batch to plan for, if it is not the example's.
    device: a name of ``brimful devices``; by default this machine's GPU, if it has one.
    memory: what the allocator may use at most, such as ``"14GiB"``.
    mode: ``train`` or ``inference``.
    accumulate: micro-batches per step.
    compile: the model is run through ``torch.compile``.
    step: the user's own training step, a function of (model, optimizer, batch), instead of the usual one.
    alloc_conf: settings as in ``PYTORCH_ALLOC_CONF``.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision is '{precision}': write one of {', '.join(PRECISIONS)}")
    if mode not in ("train", "inference"):
        raise ValueError(f"mode is '{mode}': write train or inference")
    model, compile, assumptions = _unwrapped(model, compile)
    example = given.example(inputs, model)
    recorded_size = given.batch_size(example)
    asked = recorded_size if batch is None else int(batch)
    if asked < 1:
        raise ValueError(f"batch is {asked}: a batch needs at least one sample")
    if not 1 <= accumulate <= asked:
        raise ValueError(f"accumulate is {accumulate}: write a number from 1 to the batch, {asked}")
    where, gpu, assumed = devices.resolve(device)
    assumptions += assumed
    stand_in = steps.StandInLoss()
    training = mode == "train"
    if training and step is None and optimizers.needs_closure(optimizer):
        raise ValueError("LBFGS calls the model itself: give your training step with step=, a function of (model, optimizer, batch)")
    make = optimizers.maker(optimizer) if training else None
    if step is None:
        step = steps.training(loss, precision, accumulate, stand_in) if training else steps.inference(precision)
    dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}.get(precision)
    job = capture.Job(model, example, recorded_size, step, make, gpu, training, compile, dtype)
    place = {**where, **({} if memory is None else {"memory": memory})}
    recorded = _record(job, asked, place)
    if stand_in.used:
        text = "No loss was given and the output has none: cross entropy on the labels, or else the mean of the output, stands for it."
        assumptions.append({"code": "stand_in_loss", "text": text})
    request = {
        **place,
        **devices.context(place, *recorded.first.libraries),
        "batch": asked,
        "mode": "training" if training else "inference",
        "autograd": training,
        "optimizer": recorded.first.optimizer.lower() if training else "",
        "precision": _shown(precision, model, recorded.first.autocast),
        "model": type(model).__name__,
        "modules": _modules(model),
        "accumulate": accumulate,
        "assumptions": assumptions,
        "notes": _notes(recorded, compile) + _left_out(model),
        "widen": COMPILE_WIDEN if compile else WIDEN,
        "lower": COMPILE_LOWER if compile else 0.0,
    }
    if alloc_conf is not None:
        request["alloc_conf"] = alloc_conf
    return Plan(recorded.native, request)


def _unwrapped(model: torch.nn.Module, compile: bool) -> tuple[torch.nn.Module, bool, list[dict]]:
    """The model that a wrapper holds, and what is left out with the wrapper."""
    assumptions = []
    wrappers = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    while hasattr(model, "_orig_mod") or isinstance(model, wrappers):
        if hasattr(model, "_orig_mod"):
            model, compile = model._orig_mod, True
            continue
        text = f"{type(model).__name__} is left out: one replica is planned, without buffers for communication."
        assumptions.append({"code": "one_replica", "text": text})
        model = model.module
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError("the model is TorchScript, which cannot be captured: give the nn.Module that it was made from")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}: give a torch.nn.Module")
    return model, compile, assumptions


class Recorded:
    """What was recorded, as Rust has it."""

    def __init__(self, first: capture.Recording, native: Any) -> None:
        self.first = first
        self.native = native


def _record(job: capture.Job, asked: int, place: dict) -> Recorded:
    """The batch asked for, and a second one near the largest that fits: there its size matters most."""
    strings = Strings()
    first = capture.record(job, asked, strings)
    if first.stopped is not None and first.empty:
        raise PlanError(
            f"the step cannot be captured: {first.stopped}. Give the step with step=, or plan the part of the model that runs without data"
        )
    if first.stopped is not None:
        return Recorded(first, _native.Capture(strings.table, asked, first.rows, asked, None))
    other = _other_batch(first, strings, asked, place)
    second = capture.record(job, other, strings)
    if second.stopped is not None:
        first.other_stopped = f"batch {other}: {second.stopped}"
        return Recorded(first, _native.Capture(strings.table, asked, first.rows, other, None))
    native = _native.Capture(strings.table, asked, first.rows, other, second.rows)
    if not native.paired and asked == 1:
        # A single sample is a special case for much code: two and more say what others need.
        two = capture.record(job, 2, strings)
        if two.stopped is None and other > 2:
            pair = _native.Capture(strings.table, 2, two.rows, other, second.rows)
            native = pair if pair.paired else native
    return Recorded(first, native)


def _other_batch(first: capture.Recording, strings: Strings, asked: int, place: dict) -> int:
    """About the largest batch that fits, or twice the batch where nothing limits it."""
    alone = _native.Capture(strings.table, asked, first.rows, asked, None)
    report = json.loads(alone.plan(json.dumps({**place, "batch": asked})))
    usable, context = report["device"]["usable_bytes"], report["breakdown"]["context"]
    fixed = first.weights_bytes
    per_sample = (report["peak"]["allocated_bytes"] - fixed) / asked
    if usable is None or per_sample <= 0:
        return 2 * asked
    largest = int((usable - context - fixed) / per_sample)
    # Far away the guess is poor, and one sample alone is a special case for many kernels.
    largest = min(max(largest, 2, asked // 16), 64 * asked)
    return largest if largest != asked else 2 * asked


def _shown(precision: str, model: torch.nn.Module, autocast: torch.dtype | None) -> str:
    if autocast is not None:
        return "autocast_" + str(autocast).removeprefix("torch.")
    if precision != "keep":
        return precision
    parameter = next(model.parameters(), None)
    return "float32" if parameter is None else str(parameter.dtype).removeprefix("torch.")


def _modules(model: torch.nn.Module) -> list[dict]:
    return [
        {"path": path, "class": type(module).__name__, "parameters": sum(p.numel() for p in module.parameters(recurse=False))}
        for path, module in model.named_modules()
    ]


def _left_out(model: torch.nn.Module) -> list[dict]:
    """What the copies of the parameters do not have."""
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            text = f"Hooks on parameters ({name} has one) are left out: an optimizer that steps within backward is not seen."
            return [{"code": "parameter_hooks", "text": text}]
    return []


def _notes(recorded: Recorded, compiled: bool) -> list[dict]:
    notes = []
    first = recorded.first
    if first.stopped is not None:
        text = (
            f"The capture stopped before the end of the step: {first.stopped}. What is shown is the "
            "part before it: change that line, or give a step without it with step=."
        )
        notes.append({"code": "partial_capture", "text": text})
    if first.other_stopped is not None:
        text = f"Only the batch asked for could be captured, so nothing is said about others; with {first.other_stopped}."
        notes.append({"code": "other_batch_stopped", "text": text})
    if first.values_read:
        lines = ", ".join(first.values_read[:3])
        text = f"The code reads values of tensors, which have none here: each was taken as true or one ({lines})."
        notes.append({"code": "value_read", "text": text})
    if first.bounded:
        lines = ", ".join(first.bounded[:3])
        notes.append({"code": "selection_bounded", "text": f"A mask selects elements: all of them are counted ({lines})."})
    if compiled:
        text = "torch.compile fuses, recomputes and pads: shown is the eager step. The compiled one may need up to 40 % less, hardly more."
        notes.append({"code": "compiled", "text": text})
    return notes
