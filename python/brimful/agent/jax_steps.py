"""JAX: steps that a loop marks, and the allocators of its devices.

In: JAX's module. Out: `progress`. JAX has no notion of a step, and what runs inside `jax.jit` cannot be seen from Python: counted are the
steps that loops mark for the profiler, `with jax.profiler.StepTraceAnnotation("train", step_num=step)`, and Keras's (`keras_trainer`).
In other loops there are neither steps nor allocators' figures.
"""

from __future__ import annotations

import sys

from .progress import progress, safely

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any


def follow(jax: ModuleType) -> None:
    """Counts marked steps, and reads the allocators at steps."""
    annotation = jax.profiler.StepTraceAnnotation
    leave = annotation.__exit__

    def __exit__(self: Any, *error: Any) -> Any:
        result = leave(self, *error)
        if error[:1] == (None,):
            safely(progress.updated, annotation)
        return result

    annotation.__exit__ = __exit__
    progress.readers.append(readings)


def readings() -> Iterator[dict[str, Any]]:
    """What the allocators of its devices hold."""
    # Asking for devices would set JAX up in a process that does not use it.
    if not sys.modules["jax._src.xla_bridge"].backends_are_initialized():
        return
    for device in sys.modules["jax"].local_devices():
        figures = device.memory_stats()
        if figures:
            yield {
                "framework": "jax",
                "device": f"{device.platform}:{device.id}",
                "allocated": figures.get("bytes_in_use"),
                "reserved": figures.get("pool_bytes") or figures.get("bytes_reserved"),
                "peak": figures.get("peak_bytes_in_use"),
                "limit": figures.get("bytes_limit"),
            }
