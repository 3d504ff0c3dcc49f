"""Records what the allocator of a GPU would be asked for while tensors without data run through a training step.

In: every op that PyTorch dispatches, on fake tensors. Out: rows of births and deaths of storages, with op, module, source line, role
and phase; `crates/core/src/capture` reads them. What CUDA kernels take beyond their results comes from `scratch`. Not counted: host
tensors, and memory that belongs to no op.
"""

from __future__ import annotations

import sys
import weakref
from array import array
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import scratch
from .fast import FastPath
from .host import Host
from .results import RESULTS

ALLOC, FREE, RELABEL, MARK, STEP = range(5)
PARAMETER, GRADIENT, OPTIMIZER_STATE, SAVED_ACTIVATION, INPUT, TEMPORARY, WORKSPACE = range(7)
SETUP, FORWARD, BACKWARD, OPTIMIZER = range(4)
COLUMNS = 9
# A line that reads more values than this waits for one that will not come.
MAX_READS = 5_000

# The planned device is written as a CPU with an index: ops behave as on any device, and tensors that the user's code leaves on the
# host are told apart from those on the device.
DEVICE = torch.device("cpu", 0)

DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3, torch.float64: 4, torch.bool: 7, torch.uint8: 7}
DTYPES.update({kind: 5 for kind in (torch.complex32, torch.complex64, torch.complex128)})
DTYPES.update({kind: 6 for kind in (torch.int8, torch.int16, torch.int32, torch.int64)})

_current_node = torch._C._current_autograd_node
_graph_task = torch._C._current_graph_task_id
_sequence = torch.autograd._get_sequence_nr


class Strings:
    """Strings by number, shared by the captures of one job. The first one is empty."""

    def __init__(self) -> None:
        self.table = [""]
        self._numbers = {"": 0}

    def number(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.table)
            self.table.append(text)
        return number


class Recorder(TorchDispatchMode):
    """Writes rows while it is active. Enter it inside a FakeTensorMode."""

    def __init__(self, mode: FakeTensorMode, strings: Strings, gpu: scratch.Gpu, places: "Places") -> None:
        super().__init__()
        self._fast = FastPath(mode, DEVICE)
        self.host = Host(DEVICE, self._planned)
        self.rows = array("q")
        self.strings = strings
        self.gpu = gpu
        self.memory: dict = {}
        self.places = places
        self.phase = SETUP
        self.optimizing = False
        self.call = -1
        self.buffers = 0
        self.closed = False
        self.values_read: dict[str, int] = {}
        self.bounded: dict[str, None] = {}
        self._live: dict[int, tuple[int, int, Any]] = {}
        self._kept: set[str] = set()
        self._names: dict[Any, str] = {}
        self._origins: dict[int, tuple[int, int]] = {}
        self._mark(SETUP)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # there is nothing to compile in here, and asking PyTorch's compiler costs more than an op

    # --- rows ---

    def _mark(self, phase: int) -> None:
        self.phase = phase
        self.rows.extend((MARK, 0, 0, 0, 0, 0, phase, -1, 0))

    def step(self, number: int) -> None:
        """A step begins."""
        self.rows.extend((STEP, number, 0, 0, 0, 0, 0, -1, 0))
        self._mark(FORWARD)

    def _alloc(self, size_bytes: int, op: int, module: int, source: int, role: int, dtype: int) -> int:
        buffer = self.buffers
        self.buffers += 1
        self.rows.extend((ALLOC, buffer, size_bytes, op, module, source, role, self.call, dtype))
        return buffer

    def _free(self, buffer: int) -> None:
        self.rows.extend((FREE, buffer, 0, 0, 0, 0, 0, self.call, 0))

    # --- storages ---

    def born(self, tensor: torch.Tensor, op: int, module: int = 0, source: int = 0, role: int = TEMPORARY) -> None:
        """A tensor's storage is new: it is allocated now and freed when the last reference goes."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        row = len(self.rows)
        buffer = self._alloc(storage.nbytes(), op, module, source, role, DTYPES.get(tensor.dtype, 0))

        def died(_: Any, key: int = key, buffer: int = buffer) -> None:
            self._live.pop(key, None)
            if not self.closed:
                self._free(buffer)

        self._live[key] = (buffer, row, weakref.ref(storage, died))

    def known(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's storage is already counted, or is none that can be."""
        return tensor.layout != torch.strided or tensor.untyped_storage()._cdata in self._live

    def is_input(self, tensor: Any) -> bool:
        """Whether it is a part of the batch."""
        if not isinstance(tensor, torch.Tensor) or tensor.device != DEVICE or tensor.layout != torch.strided:
            return False
        entry = self._live.get(tensor.untyped_storage()._cdata)
        return entry is not None and self.rows[entry[1] + 6] == INPUT

    def set_role(self, tensor: torch.Tensor, role: int) -> None:
        """Says what a storage is for, from its birth on."""
        entry = self._live.get(tensor.untyped_storage()._cdata) if tensor.layout == torch.strided else None
        if entry is not None:
            self.rows[entry[1] + 6] = role

    def libraries(self) -> tuple[bool, bool]:
        """Whether cuBLAS and cuDNN are used."""
        names = self._names.values()
        cublas = any(getattr(scratch.RULES.get(name), "__module__", "").endswith(".blas") for name in names)
        return cublas, any("convolution" in name or "cudnn" in name for name in names)

    def weights_bytes(self) -> int:
        """Weights, gradients and optimizer state, as they are after the first step."""
        rows = self.rows
        kept = (PARAMETER, GRADIENT, OPTIMIZER_STATE)
        total, steps = 0, 0
        for at in range(0, len(rows), COLUMNS):
            steps += rows[at] == STEP
            if steps > 1:
                break
            if rows[at] == ALLOC and rows[at + 6] in kept:
                total += rows[at + 2]
        return total

    def close(self) -> None:
        """Nothing is recorded any more."""
        self.closed = True
        self._live.clear()

    def empty(self, shape, dtype: torch.dtype, like: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
        """A tensor on the device, for results that are made here; it is counted when its op is."""
        return self._fast.empty(shape, dtype, like)

    def _planned(self, real: torch.Tensor) -> torch.Tensor:
        """What stands for a tensor that a closure reaches: on the device, as it would have to be on a GPU."""
        planned = self._fast.empty(real.shape, real.dtype, torch.contiguous_format)
        self.born(planned, self.strings.number("closure"), role=INPUT)
        return planned

    # --- ops ---

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = func._schema.name.replace("::", ".")
        special = RESULTS.get(name)
        result = NotImplemented if special is None else special(self, func, args, kwargs)
        if result is NotImplemented:
            result, args, kwargs = self.host.run(name, func, args, kwargs)
            if result is not NotImplemented:
                return result
            result = self._fast.run(func, args, kwargs, self.optimizing)
        if result is NotImplemented:
            result = func(*args, **kwargs)
        new = self._new_results(result)
        program_of = scratch.RULES.get(name)
        if not new and program_of is None:
            return result
        self.call += 1
        backward = _graph_task() != -1
        phase = OPTIMIZER if self.optimizing else BACKWARD if backward else FORWARD
        if phase != self.phase and self.phase != SETUP:
            self._mark(phase)
        module, source = self._origin(backward)
        op = self.strings.number(name)
        if program_of is None:
            for tensor in new:
                self.born(tensor, op, module, source)
            return result
        call = scratch.Call(name, args, kwargs, new, self.gpu, backward, self.memory)
        self._run(program_of(call), new, op, module, source, backward)
        return result

    def _new_results(self, result: Any) -> list:
        """The tensors on the device whose storages were not there before."""
        if isinstance(result, torch.Tensor):
            results: Any = (result,)
        elif isinstance(result, (tuple, list)):
            results = result
        else:
            return []
        live = self._live
        new: list = []
        for tensor in results:
            if isinstance(tensor, torch.Tensor):
                if tensor.device == DEVICE and tensor.layout == torch.strided:
                    key = tensor.untyped_storage()._cdata
                    if key not in live and all(key != other.untyped_storage()._cdata for other in new[-2:]):
                        new.append(tensor)
            elif isinstance(tensor, (tuple, list)):
                new.extend(self._new_results(tensor))
        return new

    def _run(self, program, new: list, op: int, module: int, source: int, backward: bool) -> None:
        """The steps of a program, then whatever it left out."""
        taken: dict[int, int] = {}
        done = [False] * len(new)
        for step in program.steps:
            kind = step[0]
            if kind == "out":
                if step[1] < len(new) and not done[step[1]]:
                    done[step[1]] = True
                    self.born(new[step[1]], op, module, source)
            elif kind == "take":
                label = self.strings.number(step[3])
                taken[step[1]] = self._alloc(step[2], label, module, source, WORKSPACE, 0)
            elif kind == "free":
                buffer = taken.pop(step[1], None)
                if buffer is not None:
                    self._free(buffer)
            else:
                key = f"{step[1]}/{backward}"
                if key not in self._kept:
                    self._kept.add(key)
                    self._alloc(step[2], self.strings.number(step[1]), 0, 0, WORKSPACE, 0)
        for index, tensor in enumerate(new):
            if not done[index]:
                self.born(tensor, op, module, source)
        for buffer in taken.values():
            self._free(buffer)

    def _origin(self, backward: bool) -> tuple[int, int]:
        """The module and the source line of the op; for backward those of the op that it is the gradient of."""
        if backward:
            node = _current_node()
            if node is not None and not self.places.depth_in_backward:
                return self._origins.get(node._sequence_nr(), (0, 0))
        origin = (self.places.module, self.strings.number(self.places.source()))
        if not self.optimizing:
            self._origins[_sequence() - 1] = origin
        return origin

    def value_read(self) -> str:
        """Remembers the line whose code reads a value that is not there."""
        line = self.places.source()
        reads = self.values_read[line] = self.values_read.get(line, 0) + 1
        if reads > MAX_READS:
            raise RuntimeError(f"{line} reads values of tensors again and again, and these have none")
        return line


class Places:
    """Where in the model and in the source the step is."""

    def __init__(self, strings: Strings, names: dict[int, str]) -> None:
        self.strings = strings
        self.module = 0
        self.depth_in_backward = 0
        self._names = names
        self._stack: list[int] = []
        self._foreign: dict[Any, bool] = {}

    def enter(self, module, _inputs) -> None:
        self._stack.append(self.module)
        if _graph_task() != -1:
            self.depth_in_backward += 1
        name = self._names.get(id(module))
        if name is not None:
            self.module = self.strings.number(name)

    def leave(self, _module, _inputs, _outputs=None) -> None:
        if self._stack:
            self.module = self._stack.pop()
        if self.depth_in_backward and _graph_task() != -1:
            self.depth_in_backward -= 1

    def source(self) -> str:
        """The innermost line outside PyTorch and this package."""
        frame = sys._getframe(2)
        foreign = self._foreign
        while frame is not None:
            code = frame.f_code
            inside = foreign.get(code)
            if inside is None:
                file = code.co_filename
                inside = foreign[code] = file.startswith(LIBRARIES) or file.startswith("<")
            if not inside:
                return f"{code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        return ""


LIBRARIES = (torch.__path__[0] + "/", __file__.rsplit("/torch/", 1)[0] + "/")
