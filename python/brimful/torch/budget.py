"""How much memory the step may use, and the micro-batch that the plan proposes for it.

In: the model's device, what the user allows, the first batch. Out: bytes, and a `Proposal`. On a GPU the room is what is free on the
device now and what PyTorch's allocator holds, less what the process uses for other things; on a CPU what the machine has left. Where
nothing can be planned, the full batch is tried. Not counted: what other processes will take later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from brimful.fitting import failure, memory
from brimful.fitting.host import Footprint

from . import guard, parts


class Budget:
    """The room there is for one step."""

    def __init__(self, device: torch.device, allowed: str | int) -> None:
        self.device = device
        self.limit = None if allowed == "auto" else memory.parse(allowed)
        #: What the process holds, where running out of memory would end it.
        self.footprint = Footprint.where_needed() if device.type == "cpu" else None
        #: Whether peaks are looked at; those of a process take as long to read as a small step's layer.
        self.watches = device.type == "cuda"
        if device.type == "cuda" and self.limit is not None:
            total = torch.cuda.mem_get_info(device)[1]
            if self.limit < total * torch.cuda.get_per_process_memory_fraction(device) if _tells_fraction() else self.limit < total:
                torch.cuda.set_per_process_memory_fraction(min(1.0, self.limit / total), device)

    def free_bytes(self) -> int:
        """What can still be allocated now."""
        if self.footprint is not None:
            return max(0, self.footprint.limit_bytes() - self.footprint.used_bytes())
        if self.device.type != "cuda":
            return memory.host_room_bytes()
        return max(0, self.allocator_bytes() - allocated_bytes(self.device))

    def all_bytes(self) -> int | None:
        """What can be held in all, by whoever says what is held: the allocator on a GPU, the process on a host; None where nobody does."""
        if self.device.type == "cuda":
            return self.allocator_bytes()
        return None if self.footprint is None or self.limit is not None else self.footprint.limit_bytes()

    def peak_bytes(self) -> int | None:
        """The most that was held since `reset_peak`, where it is looked at."""
        if not self.watches:
            return None
        return torch.cuda.max_memory_allocated(self.device) if self.footprint is None else self.footprint.peak_bytes()

    def reset_peak(self) -> None:
        if self.watches:
            torch.cuda.reset_peak_memory_stats(self.device) if self.footprint is None else self.footprint.reset_peak()

    def allocator_bytes(self) -> int:
        """What the allocator can hold in all, on a GPU."""
        free, total = torch.cuda.mem_get_info(self.device)
        most = free + torch.cuda.memory_stats_as_nested_dict(self.device)["reserved_bytes"]["all"]["current"]
        if _tells_fraction():
            most = min(most, int(total * torch.cuda.get_per_process_memory_fraction(self.device)))
        return most if self.limit is None else min(most, self.limit)

    def step_bytes(self, own_bytes: int) -> int:
        """What the step may use in all, with what it holds already: parameters, optimizer state, the batch."""
        room = self.free_bytes() + own_bytes
        return room if self.limit is None else min(room, self.limit)


def _tells_fraction() -> bool:
    return hasattr(torch.cuda, "get_per_process_memory_fraction")


def allocated_bytes(device: torch.device) -> int:
    """What PyTorch's allocator has given out; 0 where there is none to ask."""
    if device.type != "cuda":
        return 0
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    return stats["allocated_bytes"]["all"]["current"] if stats else 0


def own_bytes(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """What the step holds already, the batch apart: parameters, buffers, optimizer state."""
    kept = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    others = [parameter for parameter in guard.parameters_of(optimizer) if id(parameter) in kept]
    return sum(tensor.nbytes for tensor in kept.values()) + guard.copied_bytes(optimizer) - sum(tensor.nbytes for tensor in others)


def batch_bytes(batch: Any, device: torch.device) -> int:
    """What the batch holds already on the model's device."""
    return sum(tensor.nbytes for tensor in parts.leaves(batch) if tensor.device == device)


@dataclass
class Proposal:
    """What the plan says: how many samples to take at a time, and what they need."""

    size: int
    room_bytes: int
    plan: Any = None
    on_gpu: bool = False
    #: Gradients of the parts before, which are there while the next one runs.
    gradient_bytes: int = 0
    #: The last room that `most` was asked about, and its answer.
    _most: tuple[int, int] | None = None

    def need_bytes(self, size: int) -> int | None:
        """What so many samples at a time need."""
        if self.plan is None:
            return None
        plan = self.plan.at(size)
        if self.on_gpu:
            return plan.peak.allocated_bytes + self.gradient_bytes
        # The plan is for a GPU: on a CPU the same tensors are kept, without an allocator's rounding and cuBLAS's fixed workspace.
        # Scratch that grows with the batch stays counted: a machine that has no RAM left ends the process instead of saying so.
        fixed = self.plan.at(1).breakdown["workspace"]
        return max(0, plan.peak.floor_bytes - fixed) + self.gradient_bytes

    def sample_bytes(self, size: int) -> float | None:
        """What one more sample at a time needs, near this size."""
        other = size // 2
        if self.plan is None or other < 1:
            return None
        peaks = [self.plan.at(count).peak.allocated_bytes for count in (other, size)]
        return (peaks[1] - peaks[0]) / (size - other)

    def most(self, room_bytes: int) -> int | None:
        """How many samples at a time fit into so much, as the plan says, which knows where the allocator puts them; None without a plan."""
        if self.plan is None:
            return None
        # Rooms differ a little from look to look: the plan is asked again when it may matter.
        if self._most is None or abs(self._most[0] - room_bytes) > 0.01 * room_bytes:
            limited = self._limited(room_bytes)
            self._most = room_bytes, self.plan.report["job"]["batch"] if limited.fits else max(1, limited.max_batch or 1)
        return self._most[1]

    def _limited(self, room_bytes: int) -> Any:
        """The plan for so much room, of which the gradients of the parts before take some."""
        return type(self.plan)(self.plan._capture, {**self.plan._request, "memory": max(room_bytes - self.gradient_bytes, 1 << 20)})

    def remedies(self) -> list[str]:
        """What would need less memory."""
        every = [] if self.plan is None else [remedy["title"] for remedy in self.plan.remedies]
        return [title for title in every if "micro-batches" not in title][:3]


def propose(model: Any, batch: Any, loss: Any, optimizer: Any, precision: str, room_bytes: int) -> Proposal:
    """The largest number of samples that the plan says fits; the full batch where there is no plan, to be tried."""
    asked = parts.rows(batch)
    device = guard.device_of(model)
    on_gpu = device.type == "cuda"
    with_batch = room_bytes + batch_bytes(batch, device)
    try:
        from . import api

        plan = api.plan(model, batch, loss=loss, optimizer=optimizer, precision=precision, batch=asked, memory=max(with_batch, 1 << 20))
        if plan.partial:
            return Proposal(asked, room_bytes)
        if not on_gpu:
            # What was imported and started for the plan, the step cannot have: some hundred MiB of address space, where that is limited.
            room_bytes = min(room_bytes, memory.host_room_bytes() + own_bytes(model, optimizer))
            with_batch = room_bytes + batch_bytes(batch, device)
        whole = Proposal(asked, with_batch, plan, on_gpu)
        if asked == 1 or (plan.fits if on_gpu else whole.need_bytes(asked) <= with_batch):
            return whole
        # In parts: the gradients of those before stay, and the batch that is there leaves less.
        gradients = sum(parameter.nbytes for parameter in guard.parameters_of(optimizer) if parameter.requires_grad)
        return _in_parts(Proposal(asked, room_bytes, plan, on_gpu, gradients), asked - 1)
    except Exception as error:  # a plan is a help, not a condition
        failure.forget(error)
        return Proposal(asked, room_bytes)


def _in_parts(proposal: Proposal, most: int) -> Proposal:
    """The largest size that fits, or one sample, to be tried."""
    if proposal.on_gpu:
        proposal.size = min(most, max(1, proposal._limited(proposal.room_bytes).max_batch or 1))
        return proposal
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if proposal.need_bytes(middle) <= proposal.room_bytes else (low, middle - 1)
    proposal.size = max(1, low)
    return proposal
