"""Runs three training steps on tensors without data and records what a GPU's allocator would be asked for.

In: a `Job`: model, batch, step, optimizer. Out: a `Capture`: rows for two batch sizes, so that every size is a function of the batch;
and what could not be known. No real memory is used and the user's objects stay as they are.
"""

from __future__ import annotations

import contextlib
import gc
import random
import sys
import threading
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
from torch._subclasses import FakeTensor, FakeTensorMode

from . import autocast, kernels, redirect, replicas
from .recorder import DEVICE, GRADIENT, INPUT, LIBRARIES, OPTIMIZER_STATE, PARAMETER, Places, Recorder, Strings
from .scratch import Gpu

# The first makes the optimizer's state; what the cache is cut into settles after the second.
STEPS = 3
_ONE_AT_A_TIME = threading.Lock()


@dataclass
class Job:
    """What is to be run."""

    model: torch.nn.Module
    batch: Any
    batch_size: int
    step: Callable[[torch.nn.Module, Any, Any], Any]
    make_optimizer: Callable[[torch.nn.Module, dict[int, Any]], Any] | None
    gpu: Gpu
    train: bool = True
    compiled: bool = False  # libraries then take the way that a compiler can follow
    dtype: torch.dtype | None = None  # of all floating-point weights and inputs, if it is not as they are


@dataclass
class Recording:
    """What one batch size gave."""

    rows: bytes
    batch_size: int
    stopped: str | None = None
    values_read: list[str] = field(default_factory=list)
    bounded: list[str] = field(default_factory=list)
    empty: bool = False  # nothing but the set-up
    other_stopped: str | None = None  # why the second batch size could not be recorded
    libraries: tuple[bool, bool] = (True, True)  # cuBLAS, cuDNN
    autocast: torch.dtype | None = None  # of the last region under autocast
    optimizer: str = ""  # its class
    weights_bytes: int = 0  # weights, their gradients and the optimizer's state: what does not depend on the batch


def record(job: Job, batch_size: int, strings: Strings) -> Recording:
    """Three steps with this batch size. One capture runs at a time: it changes what PyTorch dispatches to while it lasts."""
    with _ONE_AT_A_TIME:
        return _record(job, batch_size, strings)


def _record(job: Job, batch_size: int, strings: Strings) -> Recording:
    stopped = None
    with _own_state(), _planned_device(job.compiled), FakeTensorMode(allow_non_fake_inputs=True) as fake_mode:
        model, memo = replicas.of_model(job.model, job.dtype)
        if model.training != job.train:
            model.train(job.train)
        names = {id(module): name for name, module in model.named_modules()}
        places = Places(strings, names)
        recorder = Recorder(fake_mode, strings, job.gpu, places)
        optimizer = job.make_optimizer(model, memo) if job.make_optimizer else None
        batch = replicas.of_batch(job.batch, job.batch_size, batch_size, job.dtype)
        _set_up(recorder, model, names, optimizer, batch)
        del memo
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(kernels.installed(job.gpu))
            stack.enter_context(autocast.installed())
            stack.enter_context(_hooks(recorder, model, optimizer))
            stack.enter_context(redirect.installed(recorder.is_input))
            collecting = gc.isenabled()
            gc.disable()
            try:
                with recorder:
                    for number in range(STEPS):
                        recorder.step(number)
                        job.step(model, optimizer, batch)
            except Exception as error:  # whatever the user's code does on tensors without data
                stopped = _where(error)
            finally:
                if collecting:
                    gc.enable()
        recorder.close()
    rows = recorder.rows.tobytes()
    return Recording(
        rows,
        batch_size,
        stopped,
        list(recorder.values_read),
        list(recorder.bounded),
        recorder.call < 0,
        None,
        recorder.libraries(),
        autocast.used[-1] if autocast.used else None,
        type(optimizer).__name__ if optimizer is not None else "",
        recorder.weights_bytes(),
    )


@contextlib.contextmanager
def _own_state():
    """Whatever the caller has set: gradients on, autocast off, tensors on the host by default, and random numbers given back."""
    numpy = sys.modules.get("numpy")
    states = random.getstate(), numpy.random.get_state() if numpy is not None else None
    scalers: dict[int, tuple[Any, dict]] = {}
    touched = ("scale", "unscale_", "step", "update")
    methods = {name: getattr(torch.amp.GradScaler, name) for name in touched}

    def isolated(method: Callable) -> Callable:
        def run(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            if id(scaler) not in scalers:
                scalers[id(scaler)] = (scaler, dict(vars(scaler)))
                fresh = vars(type(scaler)(device="cpu", enabled=scaler.is_enabled()))
                for name in ("_scale", "_growth_tracker", "_per_optimizer_states"):
                    if name in fresh:
                        vars(scaler)[name] = fresh[name]
            return method(scaler, *args, **kwargs)

        return run

    try:
        for name, method in methods.items():
            setattr(torch.amp.GradScaler, name, isolated(method))
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=[]))
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            # Not by a context: within one, the casts of weights would be kept until it ends.
            stack.callback(torch.set_autocast_enabled, "cpu", torch.is_autocast_enabled("cpu"))
            torch.set_autocast_enabled("cpu", False)
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            yield
    finally:
        for name, method in methods.items():
            setattr(torch.amp.GradScaler, name, method)
        for scaler, state in scalers.values():
            vars(scaler).clear()
            vars(scaler).update(state)
        random.setstate(states[0])
        if numpy is not None:
            numpy.random.set_state(states[1])


def _set_up(recorder: Recorder, model: torch.nn.Module, names: dict[int, str], optimizer: Any, batch: Any) -> None:
    """What is on the device before the first step, in the order in which `model.to(device)` moves it."""
    op = recorder.strings.number("parameter")

    def move(module: torch.nn.Module) -> None:
        for child in module.children():
            move(child)
        path = recorder.strings.number(names.get(id(module), ""))
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None and not recorder.known(tensor):
                recorder.born(tensor, op, path, 0, PARAMETER)

    move(model)
    op = recorder.strings.number("optimizer")
    for tensor in torch.utils._pytree.tree_leaves(list(optimizer.state.values()) if optimizer is not None else []):
        if isinstance(tensor, torch.Tensor) and tensor.device == DEVICE and not recorder.known(tensor):
            recorder.born(tensor, op, 0, 0, OPTIMIZER_STATE)
    op = recorder.strings.number("input")
    for tensor in torch.utils._pytree.tree_leaves(batch):
        if isinstance(tensor, torch.Tensor) and not recorder.known(tensor):
            recorder.born(tensor, op, 0, 0, INPUT)


@contextlib.contextmanager
def _hooks(recorder: Recorder, model: torch.nn.Module, optimizer: Any):
    """Says where the step is, and gives gradients and optimizer state their roles."""
    from torch.nn.modules import module as modules
    from torch.optim import optimizer as optimizers

    places = recorder.places

    def label_gradients() -> None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                recorder.set_role(parameter.grad, GRADIENT)

    def before(_optimizer, *_: Any) -> None:
        label_gradients()
        recorder.optimizing = True

    def after(stepped, *_: Any) -> None:
        recorder.optimizing = False
        for state in stepped.state.values():
            for tensor in torch.utils._pytree.tree_leaves(state):
                if isinstance(tensor, torch.Tensor) and tensor.device == DEVICE:
                    recorder.set_role(tensor, OPTIMIZER_STATE)

    handles = [
        modules.register_module_forward_pre_hook(places.enter),
        modules.register_module_forward_hook(places.leave, always_call=True),
        optimizers.register_optimizer_step_pre_hook(before),
        optimizers.register_optimizer_step_post_hook(after),
    ]
    try:
        yield
        label_gradients()
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _planned_device(compiled: bool):
    """Optimizers and libraries see the planned device as they would see a GPU."""
    from torch.optim import optimizer as optimizers
    from torch.utils import _foreach_utils as foreach

    patches: list[tuple[Any, str, Any]] = [
        (foreach, "_get_foreach_kernels_supported_devices", lambda: ["cuda", "cpu"]),
        (optimizers, "_get_foreach_kernels_supported_devices", lambda: ["cuda", "cpu"]),
        (foreach, "_foreach_supported_types", [torch.Tensor, torch.nn.Parameter, FakeTensor]),
        (optimizers, "_foreach_supported_types", [torch.Tensor, torch.nn.Parameter, FakeTensor]),
    ]
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.optim.") and hasattr(module, "_get_capturable_supported_devices"):
            patches.append((module, "_get_capturable_supported_devices", lambda *args, **kwargs: ["cuda", "cpu"]))
    utilities = sys.modules.get("transformers.utils.import_utils")
    if utilities is not None:
        # Transformers leaves its shortcuts out while it is compiled, and for fake tensors; an eager run on a GPU takes them.
        name, value = ("is_torchdynamo_compiling", lambda: True) if compiled else ("is_fake_tensor", lambda tensor: False)
        patches.append((utilities, name, value))
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in patches if hasattr(owner, name)]
    try:
        for owner, name, value in patches:
            if hasattr(owner, name):
                setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _where(error: Exception) -> str:
    """What stopped the capture, and the innermost line that is neither PyTorch's nor this package's."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(LIBRARIES):
            line = f" at {file}:{trace.tb_lineno}"
        trace = trace.tb_next
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}{line}: {said[0] if said else 'no message'}"
