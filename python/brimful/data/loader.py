"""Batches, epoch by epoch.

In: a source and settings. Out: `Loader`: `for x, y in loader` is one epoch, the next `for` the next one. Positions go into checkpoints. Its
arrays own their memory: it returns to the budget when the last array of a batch is gone. One epoch at a time: beginning another ends the
one before.
"""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Iterator
from typing import Any

import numpy

from . import handover, settings
from .errors import BelowFloor, BudgetHeldByCaller, DataError
from .progress import Progress
from .report import Plan, Stats, stats

#: What Keras asks of a data adapter.
KERAS_ASKS = frozenset(
    ("get_numpy_iterator", "get_jax_iterator", "get_tf_dataset", "get_torch_dataloader", "num_batches", "batch_size")
    + ("has_partial_batch", "partial_batch_size", "on_epoch_begin", "on_epoch_end")
)


class Loader:
    """Batches of a data set inside a budget. `Dataset.batches` makes it; Keras's `fit` takes it as it is."""

    def __init__(self, source: Any, wanted: dict, batching: dict, notes: list[str], to: str, pin: bool, progress: bool) -> None:
        self._given = (source, wanted, batching, notes)
        self._pins = handover.Pins(to, pin, batching)
        batching = {**batching, "memory_bytes": batching["memory_bytes"] - self._pins.most_bytes}
        self._convert = handover.converter(to, self._pins)
        try:
            self._native = source.loader(wanted, batching)
        except BelowFloor as error:
            raise self._pins.below(error) from None
        self._labels = bool(wanted["labels"])
        self._separate = wanted["separate"]
        self._progress = progress
        #: Bad rows that are left out make an epoch shorter than its plan.
        self._counts_exactly = batching["bad_rows"] != "skip"
        self._epoch = 0
        #: The epoch on its way, which one it is, and how many of its batches were handed out.
        self._current: Any = None
        self._current_epoch = self._done = 0
        self._left: str | None = None
        #: Whether an epoch waits at the place of `resume`.
        self._prepared = False
        self.to = to
        self.batch_rows: int = batching["batch_rows"]
        self.memory_bytes: int = self._given[2]["memory_bytes"]
        #: Name, type and shape of one row of each array.
        self.fields: list[tuple[str, str, tuple[int, ...]]] = [(name, kind, tuple(shape)) for name, kind, shape in self._native.fields]
        self._pins.of(self.fields, self.batch_rows)
        plan = json.loads(self._native.plan())
        plan["notes"] += notes + self._pins.notes
        plan["memory_bytes"], plan["expected_bytes"] = self.memory_bytes, plan["expected_bytes"] + self._pins.most_bytes
        self.plan = Plan({**plan, "shuffle": batching["shuffle"]})

    @property
    def __class__(self) -> type:
        # Keras's `fit` takes objects of its own classes only; what it asks of them is in `keras_adapter`.
        from .keras_adapter import loader_class

        return loader_class(Loader)

    def __getattr__(self, name: str) -> Any:
        if name in KERAS_ASKS:
            if "_keras" not in self.__dict__:
                self._keras = self.as_keras()
            return getattr(self._keras, name)
        raise AttributeError(f"a loader has no '{name}'")

    def __len__(self) -> int:
        return self.plan.batches

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {kind}{[self.batch_rows, *shape]}" for name, kind, shape in self.fields)
        return f"{len(self):,} batches: {shapes}"

    def __iter__(self) -> Iterator[Any]:
        return self._batches(self._raw(None), self._convert)

    def epoch(self, number: int) -> Iterator[Any]:
        """The batches of this epoch, from 0; the next `for` is the one after it."""
        if not settings.whole(number, 0):
            raise DataError(f"the epoch is {number!r}: write a whole number, 0 or more")
        return self._batches(self._raw(int(number)), self._convert)

    def _batches(self, raw: Iterator[list], convert: Any) -> Iterator[Any]:
        return (self._handed(fields, convert) for fields in raw)

    def _handed(self, fields: list, convert: Any) -> Any:
        arrays = list(map(convert, fields))
        # No list of ours holds a batch while the next one is made.
        fields.clear()
        return self._shaped(arrays)

    def _raw(self, epoch: int | None) -> Iterator[list]:
        """The arrays of each batch. The epoch begins when the first is asked for."""
        batches = self._begin(epoch)
        progress = Progress(self, self._current_epoch, self._done) if self._progress else None
        try:
            while self._some(batches, fields := []):
                if progress:
                    progress.batch(len(fields[0]))
                yield fields
            if self._current is batches:
                self._current = None
        finally:
            if self._current is batches:
                # Left early: a checkpoint may still ask where.
                self._left = batches.position()
            batches.close()
            if progress:
                progress.end()

    def _some(self, batches: Any, into: list) -> bool:
        """Puts the arrays of the next batch into a list; false when there is none."""
        self._pins.room()
        try:
            found = batches.next()
        except BudgetHeldByCaller:
            found = self._patiently(batches)
        if found is None:
            return False
        into.extend(map(numpy.asarray, found))
        if self._current is batches:
            self._done += 1
        return True

    def _patiently(self, batches: Any) -> Any:
        """The next batch, when every one that there may be is held."""
        # Arrays in cycles hold memory that nobody can reach.
        gc.collect()
        for _ in range(settings.PATIENCE_TIMES - 1):
            with contextlib.suppress(BudgetHeldByCaller):
                return batches.next()
        return batches.next()

    def _begin(self, epoch: int | None) -> Any:
        if self._prepared and epoch is None:
            self._prepared = False
            return self._current
        epoch = self._epoch if epoch is None else epoch
        return self._start(json.loads(self._native.position(epoch)), 0)

    def _start(self, position: dict, done: int) -> Any:
        if self._current is not None:
            self._current.close()
            self._current = None
        self._left = None
        self._current = self._native.batches(json.dumps(position))
        self._current_epoch, self._done, self._prepared = position["epoch"], done, False
        self._epoch = position["epoch"] + 1
        return self._current

    def _shaped(self, arrays: list) -> Any:
        """The arrays of a batch as the caller gets them: x, (x, y), or a dictionary in x's place."""
        labels = arrays.pop() if self._labels else None
        if self._separate:
            features: Any = dict(zip((name for name, _, _ in self.fields), arrays))
        else:
            features = arrays[0] if arrays else None
        if labels is None:
            return features
        return labels if features is None else (features, labels)

    # Positions.

    def state(self) -> dict:
        """Where the next batch begins, for a checkpoint: numbers and words that JSON can hold."""
        position = None
        if self._current is not None:
            position = self._current.position() or self._left
        if position is None or self._done >= len(self):
            return {"position": json.loads(self._native.position(self._epoch)), "batches": 0}
        return {"position": json.loads(position), "batches": self._done}

    def _next_state(self) -> dict:
        """Where the next `for` begins."""
        if self._prepared:
            return self.state()
        return {"position": json.loads(self._native.position(self._epoch)), "batches": 0}

    def resume(self, state: dict) -> None:
        """The next `for` goes on where `state` was asked for. It takes the same time wherever that is."""
        if not isinstance(state, dict) or not isinstance(state.get("position"), dict):
            raise DataError("this is no state of a loader: give what loader.state() gave")
        self._start(state["position"], int(state.get("batches", 0)))
        self._prepared = True

    def stats(self) -> Stats:
        """Rows, bad rows with their places, and the budget's peak and parts beside what the process took."""
        return stats(json.loads(self._native.figures()), self._pins)

    def close(self) -> None:
        """Ends the threads that read; the next `for` begins the next epoch."""
        if self._current is not None:
            self._left = self._current.position() or self._left
            self._current.close()
            self._prepared = False

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # Other libraries.

    def as_tf(self) -> Any:
        """A `tf.data.Dataset` of whole batches: each pass is the next epoch. No array becomes part of a graph."""
        from .tensorflow_dataset import dataset

        return dataset(self)

    def as_keras(self) -> Any:
        """What Keras's `fit`, `evaluate` and `predict` take, of known length, on each of its backends."""
        from .keras_adapter import adapter

        return adapter(self)

    def as_arrow(self) -> Any:
        """A `pyarrow.RecordBatchReader` of the next epoch. Numbers stay where they are; an array of a row is a list of fixed size."""
        from .arrow import reader

        return reader(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.as_arrow().__arrow_c_stream__(requested_schema)
