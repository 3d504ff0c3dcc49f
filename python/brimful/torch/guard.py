"""What a step changes, kept so that a failed attempt leaves nothing behind.

In: a model, an optimizer, a GradScaler, a scheduler. Out: `Light`, which every step takes (random state, buffers, the scaler), and `Copy`,
which is taken while the optimizer's step is in danger (parameters, optimizer state, counters, the scheduler). Not kept: what modules hold
in plain attributes, generators of the user's own, and gradients, which a failed attempt sets to None.
"""

from __future__ import annotations

import copy
import gc
import random
import sys
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch


def copy_all(into: list[torch.Tensor], out_of: list[torch.Tensor]) -> None:
    """Copies tensors in as few kernels as the device allows."""
    if not into:
        return
    groups: dict[tuple, tuple[list, list]] = defaultdict(lambda: ([], []))
    for to, source in zip(into, out_of):
        pair = groups[(to.device, to.dtype, source.device)]
        pair[0].append(to)
        pair[1].append(source)
    with torch.no_grad():
        for tos, sources in groups.values():
            torch._foreach_copy_(tos, sources)


class RandomState:
    """The generators that a forward pass draws from: PyTorch's, of the CPU and of the device, Python's and numpy's."""

    def __init__(self, device: torch.device) -> None:
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        self.python = random.getstate()
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if numpy is not None else None
        self.device = device

    def put_back(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)

    def drawn(self) -> bool:
        """Whether any numbers were drawn since."""
        if self.python != random.getstate():
            return True
        if self.numpy is not None and not _same(self.numpy, sys.modules["numpy"].random.get_state()):
            return True
        if self.cuda is not None and not torch.equal(self.cuda, torch.cuda.get_rng_state(self.device)):
            return True
        return not torch.equal(self.cpu, torch.get_rng_state())


def _same(left: Any, right: Any) -> bool:
    """Whether two states of numpy's generator are equal: tuples or mappings, with an array inside."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(value, right[name]) for name, value in left.items())
    if isinstance(left, tuple):
        return len(left) == len(right) and all(_same(*pair) for pair in zip(left, right))
    return bool((left == right).all()) if hasattr(left, "all") else left == right


class Shadows:
    """Copies of buffers of one kind, in one kernel where the device allows."""

    def __init__(self, buffers: list[torch.Tensor]) -> None:
        self.buffers = buffers
        self.copies = [torch.empty_like(buffer) for buffer in buffers]
        # batch_norm does not count its changes of running statistics: those are copied always, whole numbers when they changed.
        self._counted = not buffers[0].is_floating_point()
        self._versions: list[int] | None = None

    def take(self) -> None:
        versions = [buffer._version for buffer in self.buffers] if self._counted else None
        if versions is None or versions != self._versions:
            torch._foreach_copy_(self.copies, self.buffers)
            self._versions = versions

    def put_back(self) -> None:
        torch._foreach_copy_(self.buffers, self.copies)
        self._versions = None


class Light:
    """Random state, buffers and the scaler's state: cheap enough for every step."""

    def __init__(self, model: torch.nn.Module, scaler: Any = None, beside: Iterable[torch.nn.Module] = ()) -> None:
        """beside: modules of the loss."""
        self.model = model
        self.scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self.device = device_of(model)
        modules = [*model.named_modules(), *((type(module).__name__, module) for module in beside)]
        named = [(path, module, name) for path, module in modules for name in module._buffers]
        self._owners = [(module._buffers, name) for _, module, name in named]
        self._modules = [module for _, module, _ in named]
        self._names = [f"{path}.{name}" if path else name for path, _, name in named]
        self._buffers: list[torch.Tensor | None] = []
        #: Buffers of one kind together, each once, in an order that stays.
        self._shadows: list[Shadows] = []

    def take(self) -> None:
        self.random = RandomState(self.device)
        self._take_buffers()
        if self.scaler is not None:
            pair = (self.scaler._scale, self.scaler._growth_tracker)
            self._scaler = [(tensor, None if tensor is None else tensor.clone()) for tensor in pair]
            self._noted = {key: dict(state) for key, state in self.scaler._per_optimizer_states.items()}

    def _take_buffers(self) -> None:
        """Shadows stay between steps: on a GPU that waits for the next forward pass every microsecond here counts."""
        buffers = [owner.get(name) for owner, name in self._owners]
        if len(buffers) != len(self._buffers) or any(new is not old for new, old in zip(buffers, self._buffers)):
            self._buffers = buffers
            kinds: dict[tuple, list[torch.Tensor]] = defaultdict(list)
            for buffer in {id(buffer): buffer for buffer in buffers if buffer is not None}.values():
                kinds[(buffer.device, buffer.dtype)].append(buffer)
            self._shadows = [Shadows(alike) for alike in kinds.values()]
        with torch.no_grad():
            for shadows in self._shadows:
                shadows.take()

    def others(self, known: tuple[type, ...]) -> bool:
        """Whether there are buffers of modules that are not of the known kinds."""
        return any(
            owner.get(name) is not None and not isinstance(module, known) for (owner, name), module in zip(self._owners, self._modules)
        )

    def changed(self, known: tuple[type, ...]) -> list[str]:
        """Names of the buffers whose values changed since `take`, without those of modules of the known kinds."""
        kept = {id(buffer): copied for shadows in self._shadows for buffer, copied in zip(shadows.buffers, shadows.copies)}
        found = []
        for (owner, name), module, path, before in zip(self._owners, self._modules, self._names, self._buffers):
            now = owner.get(name)
            if isinstance(module, known) or (now is None and before is None):
                continue
            if now is None or before is None or not equal_numbers(now, kept[id(before)]):
                found.append(path)
        return found

    def put_back(self) -> None:
        self.random.put_back()
        for (owner, name), buffer in zip(self._owners, self._buffers):
            owner[name] = buffer
        with torch.no_grad():
            for shadows in self._shadows:
                shadows.put_back()
        if self.scaler is not None:
            for name, (tensor, kept) in zip(("_scale", "_growth_tracker"), self._scaler):
                if tensor is not None:
                    tensor.copy_(kept)
                setattr(self.scaler, name, tensor)
            self.scaler._per_optimizer_states.clear()
            self.scaler._per_optimizer_states.update(self._noted)


def equal_numbers(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors hold the same, where what is not a number equals itself."""
    if left.shape != right.shape or left.dtype != right.dtype or left.device != right.device:
        return False
    return torch.equal(left, right) or bool(((left == right) | ((left != left) & (right != right))).all())


class Copy:
    """Parameters, optimizer state, counters and the scheduler, for the time of one optimizer step."""

    def __init__(self, optimizer: torch.optim.Optimizer, scheduler: Any = None, on_host: bool = False, extra: Any = ()) -> None:
        self.optimizers = nested(optimizer)
        self.scheduler = scheduler
        self._scheduler = None if scheduler is None else copy.deepcopy(scheduler.state_dict())
        tensors = {id(parameter): parameter for parameter in (*parameters_of(optimizer), *extra)}
        self._state: list[tuple] = []
        for one in self.optimizers:
            states = {}
            for parameter, state in one.state.items():
                plain = {}
                for name, value in state.items() if isinstance(state, dict) else ():
                    if isinstance(value, torch.Tensor):
                        tensors[id(value)] = value
                        plain[name] = value
                    else:
                        plain[name] = copy.deepcopy(value)
                states[parameter] = plain if isinstance(state, dict) else copy.deepcopy(state)
            groups = []
            for group in one.param_groups:
                rest = {name: value for name, value in group.items() if name != "params"}
                tensors.update((id(value), value) for value in rest.values() if isinstance(value, torch.Tensor))
                groups.append(rest)
            counters = {name: value for name, value in vars(one).items() if isinstance(value, (bool, int, float, str, type(None)))}
            self._state.append((one, states, groups, counters, set(vars(one))))
        self._live = list(tensors.values())
        self._kept = [_twin(tensor.detach(), on_host) for tensor in self._live]
        copy_all(self._kept, [tensor.detach() for tensor in self._live])

    def put_back(self) -> None:
        copy_all([tensor.detach() for tensor in self._live], self._kept)
        for one, states, groups, counters, names in self._state:
            for parameter in [parameter for parameter in one.state if parameter not in states]:
                del one.state[parameter]
            for parameter, kept in states.items():
                state = one.state[parameter]
                if isinstance(state, dict) and isinstance(kept, dict):
                    state.clear()
                    state.update({name: value if isinstance(value, torch.Tensor) else copy.deepcopy(value) for name, value in kept.items()})
                else:
                    one.state[parameter] = copy.deepcopy(kept)
            for group, rest in zip(one.param_groups, groups):
                for name in [name for name in group if name != "params" and name not in rest]:
                    del group[name]
                group.update(rest)
            # A GradScaler lends fused optimizers two attributes for the time of their step.
            for name in [name for name in vars(one) if name not in names]:
                delattr(one, name)
            vars(one).update(counters)
        if self.scheduler is not None:
            self.scheduler.load_state_dict(copy.deepcopy(self._scheduler))


def _twin(tensor: torch.Tensor, on_host: bool) -> torch.Tensor:
    if not on_host or tensor.device.type == "cpu":
        return torch.empty_like(tensor)
    try:
        return torch.empty_like(tensor, device="cpu", pin_memory=True)
    except RuntimeError:  # no more memory can be pinned
        return torch.empty_like(tensor, device="cpu")


def copied_bytes(optimizer: torch.optim.Optimizer) -> int:
    """What a copy would take."""
    state = sum(
        value.nbytes
        for one in nested(optimizer)
        for values in one.state.values()
        for value in (values.values() if isinstance(values, dict) else ())
        if isinstance(value, torch.Tensor)
    )
    return state + sum(parameter.nbytes for parameter in parameters_of(optimizer))


def nested(optimizer: Any) -> list[torch.optim.Optimizer]:
    """The optimizer and those that it wraps."""
    found = [optimizer]
    for one in found:
        found += [value for value in vars(one).values() if isinstance(value, torch.optim.Optimizer) and value not in found]
    return found


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The parameters that the optimizer updates, each once."""
    every = (parameter for one in nested(optimizer) for group in one.param_groups for parameter in group["params"])
    return list({id(parameter): parameter for parameter in every}.values())


def release(device: torch.device) -> None:
    """Gives back what a failed attempt held: cycles first, then the allocator's cache, with the workspaces of cuBLAS in it."""
    gc.collect()
    if device.type == "cuda":
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


def device_of(model: torch.nn.Module) -> torch.device:
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")
