"""A loader as what Keras's `fit`, `evaluate` and `predict` take.

In: a loader. Out: one of Keras's data adapters, of known length, on TensorFlow, JAX and PyTorch. Keras looks at the class of what it is given:
while Keras is imported, a loader's class says that it is an adapter, and what Keras then asks of it is answered here. Keras builds a model
with the first batch of an epoch and begins again: that epoch is not counted.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

from .errors import DataError, library


@functools.cache
def _base() -> type:
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter

    return DataAdapter


@functools.cache
def _both(loader: type) -> type:
    return type(loader.__name__, (loader, _base()), {"__module__": loader.__module__})


def loader_class(loader: type) -> type:
    """The class that a loader shows: its own, and Keras's adapter where Keras is imported."""
    try:
        return _both(loader) if "keras.src.trainers.data_adapters" in sys.modules else loader
    except ImportError:
        return loader


def adapter(loader: Any) -> Any:
    """An adapter of its own."""
    library("keras", asker="as_keras()")
    return _adapter()(loader)


@functools.cache
def _adapter() -> type:
    class LoaderAdapter(_Epochs, _base()):
        """A loader, as Keras asks for data."""

        def __init__(self, loader: Any) -> None:
            self._set(loader)

    return LoaderAdapter


class _Epochs:
    """What Keras asks of an adapter."""

    def _set(self, loader: Any) -> None:
        self.loader = loader
        #: Where the last iterator began, and how many batches it gave.
        self._began: dict = {"batches": 0}
        self._given = 0
        self._promised: int | None = None

    def _looked(self) -> bool:
        """Whether Keras took one batch to build a model with, and no more."""
        place = self.loader._done, self.loader._prepared
        return self._given == 1 and place == (self._began["batches"] + 1, False) and len(self.loader) > place[0]

    def _raw(self) -> Iterator[list]:
        loader = self.loader
        if self._looked():
            loader.resume(self._began)
        self._began, self._given = loader._next_state(), 0
        for fields in loader._raw(None):
            self._given += 1
            yield fields

    def _tuples(self, convert: Any) -> Iterator[tuple]:
        for batch in self.loader._batches(self._raw(), convert):
            yield batch if isinstance(batch, tuple) else (batch,)
            del batch

    def get_numpy_iterator(self) -> Iterator[tuple]:
        """NumPy arrays."""
        return self._tuples(lambda array: array)

    get_jax_iterator = get_numpy_iterator

    def get_tf_dataset(self) -> Any:
        """A `tf.data.Dataset`."""
        from .tensorflow_dataset import dataset

        return dataset(self.loader, self._raw, tuples=True)

    def get_torch_dataloader(self) -> Any:
        """A `torch.utils.data.DataLoader` over whole batches."""
        import torch

        batches = self._tuples

        class Whole(torch.utils.data.IterableDataset):
            def __iter__(self) -> Iterator[tuple]:
                return batches(torch.from_numpy)

        return torch.utils.data.DataLoader(Whole(), batch_size=None)

    @property
    def num_batches(self) -> int | None:
        """Batches of an epoch, or of what is left of one; not known where bad rows are left out."""
        loader = self.loader
        done = loader._done if loader._prepared else self._began["batches"] if self._looked() else 0
        self._promised = len(loader) - done
        return self._promised if loader._counts_exactly else None

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self.loader.batch_rows

    @property
    def has_partial_batch(self) -> bool:
        """Whether the last batch has fewer rows."""
        return bool(self.partial_batch_size)

    @property
    def partial_batch_size(self) -> int:
        """Rows of the last batch, if it has fewer."""
        loader = self.loader
        return 0 if loader._given[2]["drop_last"] else loader.plan.epoch_rows % loader.batch_rows

    def on_epoch_begin(self) -> None:
        """Keras begins an epoch, and takes all of them to have as many batches as the first."""
        if self._promised is not None and self._given >= self._promised and self._promised < len(self.loader):
            raise DataError(
                "the loader went on in the middle of an epoch, and Keras would cut the next ones to the same length: finish that one with "
                "epochs=1, and call fit again for the rest"
            )

    def on_epoch_end(self) -> None:
        """Keras has ended it."""
