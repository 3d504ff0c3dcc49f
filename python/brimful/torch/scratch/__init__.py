"""What a CUDA kernel asks of the allocator beyond its results, and in which order.

In: one call of an op, with its arguments and results as tensors without data. Out: a program, the order of allocations and frees
inside the call. An op without a rule allocates its results, in order, and nothing else. Rules live in the other modules of this
package, one for each kind of kernel, and are registered by the op's name. Not counted: what a library takes from the driver itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable


@dataclass(frozen=True)
class Gpu:
    """What rules may ask about the GPU that is planned for."""

    capability: tuple[int, int]
    multiprocessors: int
    max_threads_per_multiprocessor: int = 2048
    cudnn: tuple[int, int] = (9, 19)
    cublas_bytes: int | None = None  # of a handle's workspace, where it was measured
    cublas_lt_bytes: int | None = None
    keeps_cublas: bool = True  # a handle keeps its workspace; from PyTorch 2.15 on each product takes one and gives it back


@dataclass
class Call:
    """One call of an op. Tensors have `shape`, `stride()`, `dtype`, `element_size()`, `numel()` and `is_contiguous()`."""

    op: str
    args: tuple
    kwargs: dict[str, Any]
    outputs: list  # the results that are new allocations, in the order of the op's schema
    gpu: Gpu
    backward: bool = False  # on the thread that runs backward, which has library handles of its own
    memory: dict = field(default_factory=dict)  # what a rule wants to remember until the end of the capture


class Program:
    """Steps in the order in which the allocator sees them; whatever is not freed by a step lives as long as its tensor."""

    def __init__(self) -> None:
        self.steps: list[tuple] = []
        self._temporaries = 0

    def out(self, index: int) -> None:
        """The result with this number in `Call.outputs` is allocated."""
        self.steps.append(("out", index))

    def outs(self, call: Call) -> None:
        """All results are allocated, in order."""
        for index in range(len(call.outputs)):
            self.out(index)

    def take(self, size_bytes: int, label: str = "workspace") -> int:
        """Scratch is allocated; the result is its name for `free`."""
        self._temporaries += 1
        self.steps.append(("take", self._temporaries, int(size_bytes), label))
        return self._temporaries

    def free(self, name: int) -> None:
        """Scratch is given back. What is not given back is freed when the call returns."""
        self.steps.append(("free", name))

    def scratch(self, size_bytes: int, label: str = "workspace") -> None:
        """Scratch that lives within the kernel."""
        if size_bytes > 0:
            self.free(self.take(size_bytes, label))

    def keep(self, key: str, size_bytes: int) -> None:
        """A library's workspace: allocated at the first call with this key, and never given back."""
        self.steps.append(("keep", key, int(size_bytes)))


Rule = Callable[[Call], Program]
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Registers a rule for ops by name, such as `aten.addmm` (every overload)."""

    def register(function: Rule) -> Rule:
        for op in ops:
            RULES[op] = function
        return function

    return register


from . import attention, blas, convolution, indexing, norm, pointwise, reduction, rnn  # noqa: E402, F401  (they register themselves)
