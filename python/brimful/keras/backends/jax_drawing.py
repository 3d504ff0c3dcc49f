"""How a batch of arrays is drawn again: Keras takes the same rows of the same arrays, so that nobody need hold it.

In: Keras's own iterator over arrays, which is listened to until it is put back. Out: for one of the last batches, on the host or on the
device, a function that makes it once more. To hold batches of many short steps instead costs a good part of them: on a GPU each one held made the
next step begin later, and on the host each takes memory that the system finds and clears. Not known: batches of generators, data sets
and loaders, which cannot be asked for the same one twice.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
from keras import tree
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

#: Keras's own; what it takes and gives is no promise of Keras's.
METHOD = "_get_iterator"


class Drawn:
    """A batch that can be made again."""

    def __init__(self, take: Callable, arrays: Any, rows: Any) -> None:
        self._take, self._arrays, self._rows = take, arrays, rows

    def batch(self) -> Any:
        """The same rows once more."""
        return tree.map_structure(partial(self._take, indices=self._rows), self._arrays, none_is_leaf=False)


class Drawing:
    """The last batches that Keras drew from arrays."""

    def __init__(self) -> None:
        #: By their first array, which is not held by this. Keras sends one ahead to the device, so two are there and two here.
        self._known: deque[tuple[Any, Drawn]] = deque(maxlen=4)
        self._own = ArrayDataAdapter.__dict__.get(METHOD)
        if self._own is not None:
            setattr(ArrayDataAdapter, METHOD, self._listening(self._own))

    def end(self) -> None:
        """Keras's own again."""
        self._known.clear()
        if self._own is not None:
            setattr(ArrayDataAdapter, METHOD, self._own)
            self._own = None

    def source(self, batch: Any) -> Drawn | None:
        """What makes this batch once more, if it is one of the last ones."""
        first = jax.tree_util.tree_leaves(batch)[:1]
        return next((drawn for known, drawn in self._known if first and known() is first[0]), None)

    def sent(self, batch: Any, onto: Any) -> None:
        """A batch went to the device."""
        drawn = self.source(batch)
        if drawn is not None:
            self._add(onto, drawn)

    def _add(self, batch: Any, drawn: Drawn) -> None:
        self._known.extend((weakref.ref(first), drawn) for first in jax.tree_util.tree_leaves(batch)[:1])

    def _listening(self, own: Callable) -> Callable:
        def iterator(adapter: Any, take: Callable, arrays: Any) -> Iterator[Any]:
            rows = None

            def listened(array: Any, indices: Any = None) -> Any:
                nonlocal rows
                rows = indices
                return take(array, indices=indices)

            for batch in own(adapter, listened, arrays):
                self._add(batch, Drawn(take, arrays, rows))
                yield batch

        return iterator
