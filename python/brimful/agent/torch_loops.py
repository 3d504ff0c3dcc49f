"""PyTorch: optimizers' updates, waiting for loaders, saving, and the allocators of its devices.

In: PyTorch's modules. Out: `progress`. A step is an update (`progress` says which, with several optimizers), so with accumulated gradients
there is one for several batches; steps that a gradient scaler skips are none. `transformers`, Lightning and the like update by the
same optimizers. Waiting is the time that `DataLoader`s take for the next batch, evaluation included. Not counted: updates by code of the user's own.
"""

from __future__ import annotations

import sys

from .around import as_waiting, in_phase
from .link import link
from .progress import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any


def follow(torch: ModuleType) -> None:
    """Counts updates and notices `torch.save`."""

    updated = progress.updated

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            updated(optimizer)
        except Exception as error:
            link.give_up(error)

    # torch.compile runs it as it is: optimizers' steps break a graph in any case.
    after_step._torchdynamo_disable = True
    # `torch.optim` hides the module's name.
    sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(after_step)
    in_phase(torch.serialization, "save", "save")
    torch.save = torch.serialization.save
    progress.readers.append(readings)


def follow_loaders(module: ModuleType) -> None:
    """Takes the time of loaders."""
    as_waiting(module._BaseDataLoaderIter, "__next__")


def readings() -> Iterator[dict[str, Any]]:
    """What the allocators of its devices hold."""
    torch = sys.modules["torch"]
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is None or not module.is_initialized():
            continue
        for index in range(module.device_count()):
            # Counted on the host: no device is waited for.
            figures = module.memory_stats_as_nested_dict(index)
            reserved = figures["reserved_bytes"]["all"]
            if reserved["peak"]:
                allocated = figures["allocated_bytes"]["all"]
                yield {
                    "framework": "torch",
                    "device": f"{kind}:{index}",
                    "allocated": allocated["current"],
                    "reserved": reserved["current"],
                    "peak": allocated["peak"],
                    "limit": _limit_bytes(module, index),
                }
    if torch.backends.mps.is_available():
        mps = torch.mps
        allocated, reserved = mps.current_allocated_memory(), mps.driver_allocated_memory()
        limit = mps.recommended_max_memory() if hasattr(mps, "recommended_max_memory") else None
        if reserved:
            yield {"framework": "torch", "device": "mps:0", "allocated": allocated, "reserved": reserved, "peak": None, "limit": limit}


_total_bytes: dict[tuple[str, int], int] = {}


def _limit_bytes(module: ModuleType, index: int) -> int:
    """The share of the device's memory that this process may take, as the user set it."""
    key = (module.__name__, index)
    if key not in _total_bytes:
        _total_bytes[key] = module.get_device_properties(index).total_memory
    share = module.get_per_process_memory_fraction(index) if hasattr(module, "get_per_process_memory_fraction") else 1.0
    return int(_total_bytes[key] * share)
