"""Keras 3's `fit`, `evaluate`, `predict`, `train_on_batch` and saving, on all its backends.

In: Keras's modules. Out: `progress`, with the epoch (counted from 0, as Keras counts) and the loss as Keras shows it: the mean of the
epoch so far. The loss is taken where Keras has made a Python number of it for its own callbacks, so nothing is waited for. Waiting for
data is known on JAX (Keras's iterator) and PyTorch (its `DataLoader`); TensorFlow takes batches inside its compiled function, where nobody
sees the time.
"""

from __future__ import annotations

import threading
from time import monotonic_ns

from brimful.hooks import without_this_frame

from .around import in_phase, replace
from .progress import progress, safely

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_TRAINERS = ("TensorFlowTrainer", "JAXTrainer", "TorchTrainer")


def follow_trainer(module: ModuleType) -> None:
    """One backend's trainer, and its iterator where that can be timed."""
    for trainer in (getattr(module, name) for name in _TRAINERS if hasattr(module, name)):
        in_phase(trainer, "fit", "train", counts_itself=True)
        in_phase(trainer, "evaluate", "evaluate")
        in_phase(trainer, "predict", "predict")
        replace(trainer, "train_on_batch", _one_step)
    if hasattr(module, "JAXEpochIterator"):
        replace(module.JAXEpochIterator, "_get_iterator", _timed)


def follow_saving(module: ModuleType) -> None:
    """Models and weights that are written."""
    for name in ("save_model", "save_weights"):
        in_phase(module, name, "save")


def follow_batches(module: ModuleType) -> None:
    """Each list of callbacks gets one more, at its end: it hears of batches when Keras has their logs."""
    follower = _follower(module.Callback)

    def make(original: Any) -> Any:
        def with_follower(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                original(self, *args, **kwargs)
            except BaseException as error:
                without_this_frame(error)
                raise
            safely(lambda: self.callbacks.append(follower(self.params)))

        return with_follower

    replace(module.CallbackList, "__init__", make)


def _follower(callback: type) -> type:
    class Follower(callback):  # type: ignore[misc,valid-type]
        """Hears of batches. Keras may call it in a thread, and out of order."""

        def __init__(self, params: dict[str, Any] | None) -> None:
            super().__init__()
            self.batches = (params or {}).get("steps")
            self.steps_before = progress.step
            self.lock = threading.Lock()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            progress.epoch = int(epoch)
            self.steps_before = progress.step

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            # With several batches in one call, Keras gives a number beyond the last one.
            batches = min(batch + 1, self.batches or batch + 1)
            safely(self.reached, batches, logs)

        def reached(self, batches: int, logs: dict[str, Any] | None) -> None:
            loss = (logs or {}).get("loss")
            with self.lock:
                if isinstance(loss, float):
                    progress.loss = loss
                progress.reached(self.steps_before + batches)

    return Follower


def _one_step(original: Any) -> Any:
    def followed(*args: Any, **kwargs: Any) -> Any:
        progress.counted_elsewhere += 1
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            without_this_frame(error)
            raise
        finally:
            progress.counted_elsewhere -= 1
        if not progress.counted_elsewhere:
            safely(progress.reached, progress.step + 1)
        return result

    return followed


def _timed(original: Any) -> Any:
    def followed(self: Any) -> Any:
        return _Timed(original(self))

    return followed


class _Timed:
    """The same batches; the time that each one took counts as waiting."""

    def __init__(self, batches: Any) -> None:
        self._batches = iter(batches)

    def __iter__(self) -> _Timed:
        return self

    def __next__(self) -> Any:
        is_outermost, progress.is_waiting = not progress.is_waiting, True
        began_ns = monotonic_ns()
        try:
            return next(self._batches)
        except BaseException as error:
            without_this_frame(error)
            raise
        finally:
            if is_outermost:
                progress.is_waiting = False
                progress.waited(monotonic_ns() - began_ns)
