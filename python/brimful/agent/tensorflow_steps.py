"""TensorFlow: calls of functions that train, waiting for `tf.data`, and the allocators of its devices.

In: TensorFlow's modules, and updates by Keras's optimizers. Out: `progress`. A `tf.function` in which an optimizer updates weights trains:
each outermost call of it is a step. One that loops over batches inside itself trains as often as its optimizer's counter says, which is
read after each call. Waiting is the time that iterators take for the next batch in a loop of Python's; loops inside a function, and
Keras's `fit`, keep that to themselves. Not counted: functions that are called through `get_concrete_function`.
"""

from __future__ import annotations

import sys
import threading
import weakref

from brimful.hooks import without_this_frame

from .around import as_waiting, replace
from .progress import progress, safely

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any


class _Calls(threading.local):
    """Each thread's outermost function that is being called."""

    outermost: Any = None


_calls = _Calls()
#: The last one of any thread: strategies trace in threads of their own.
_latest: Any = None
#: Functions that train, by identity.
_training: dict[int, _Training] = {}


class _Training:
    """A function that trains."""

    def __init__(self, function: Any, optimizer: Any) -> None:
        number = id(function)
        self.function = weakref.ref(function, lambda _: _training.pop(number, None))
        self.optimizer = weakref.ref(optimizer)
        self.loops = False
        #: What the optimizer counted so far.
        self.iterations = 0

    def ended(self) -> None:
        optimizer = self.optimizer()
        if optimizer is None or progress.counted_elsewhere:
            return
        times = 1
        if self.loops:
            before, self.iterations = self.iterations, int(optimizer.iterations.numpy())
            times = self.iterations - before
        if times > 0:
            progress.updated(optimizer, times)


def follow(tensorflow: ModuleType) -> None:
    """Reads the allocators at steps."""
    progress.readers.append(Readings(tensorflow))


def follow_functions(module: ModuleType) -> None:
    """Counts calls of functions that train."""

    def make(original: Any) -> Any:
        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            global _latest
            is_outermost = _calls.outermost is None
            if is_outermost:
                _calls.outermost = _latest = self
            try:
                result = original(self, *args, **kwargs)
            except BaseException as error:
                without_this_frame(error)
                raise
            finally:
                if is_outermost:
                    _calls.outermost = _latest = None
            if is_outermost:
                training = _training.get(id(self))
                if training is not None:
                    safely(training.ended)
            return result

        return called

    replace(module.Function, "__call__", make)


def follow_iterators(module: ModuleType) -> None:
    """Takes the time of `tf.data` in loops of Python's."""
    executing_eagerly = sys.modules["tensorflow.python.eager.context"].executing_eagerly
    as_waiting(module.OwnedIterator, "__next__", executing_eagerly)


def updated(optimizer: Any) -> None:
    """An optimizer has updated weights, or the operations for that have been traced."""
    if progress.counted_elsewhere:
        return
    if sys.modules["tensorflow.python.eager.context"].executing_eagerly():
        progress.updated(optimizer)
        return
    function = _calls.outermost or _latest
    if function is None:
        return
    training = _training.get(id(function))
    if training is None:
        training = _training[id(function)] = _Training(function, optimizer)
    if not training.loops and _is_in_loop():
        training.loops = True
        with sys.modules["tensorflow"].init_scope():
            training.iterations = int(optimizer.iterations.numpy())


def _is_in_loop() -> bool:
    """Whether what is being traced will run many times in one call: the body of a loop, or a function of a dataset."""
    graph = sys.modules["tensorflow.python.framework.ops"].get_default_graph()
    while graph is not None:
        # The outermost graph has no name.
        name = getattr(graph, "name", "")
        if "while_body" in name or "Dataset" in name:
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


class Readings:
    """Reads what TensorFlow's allocators say of each device."""

    def __init__(self, tensorflow: ModuleType) -> None:
        self.tensorflow = tensorflow
        #: Those that have figures; unknown until they are there.
        self.devices: list[str] | None = None

    def __call__(self) -> Iterator[dict[str, Any]]:
        # Asking for devices would set TensorFlow up in a process that does not use it.
        context = sys.modules["tensorflow.python.eager.context"].context_safe()
        if context is None or context._context_handle is None:
            return
        config = self.tensorflow.config
        if self.devices is None:
            names = [device.name.replace("/device:", "") for device in config.list_logical_devices()]
            self.devices = [name for name in names if self._figures(name) is not None]
        for name in self.devices:
            figures = self._figures(name)
            # Allocators that do not count say nothing but zero.
            if figures is not None and figures["peak"]:
                allocated, peak = figures["current"], figures["peak"]
                yield {"framework": "tensorflow", "device": name, "allocated": allocated, "reserved": None, "peak": peak, "limit": None}

    def _figures(self, name: str) -> dict[str, int] | None:
        try:
            return self.tensorflow.config.experimental.get_memory_info(name)
        except (ValueError, RuntimeError, self.tensorflow.errors.OpError):
            return None
