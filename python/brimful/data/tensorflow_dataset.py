"""A loader as a `tf.data.Dataset`.

In: a loader. Out: whole batches with their types and shapes known; each pass is the next epoch. TensorFlow borrows the arrays of a batch until
its step is done with them. No batch is prefetched by TensorFlow: reading ahead is the loader's, inside its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .errors import library


def spec(loader: Any, tf: Any) -> Any:
    """Types and shapes of a batch; the number of rows is open, as the last batch may have fewer."""
    return loader._shaped([tf.TensorSpec((None, *shape), kind, name=None) for _, kind, shape in loader.fields])


def dataset(loader: Any, epochs: Callable[[], Iterator[Any]] | None = None, tuples: bool = False) -> Any:
    """The dataset; `epochs` gives an iterator over the arrays of an epoch, and Keras wants even a single input in a tuple."""
    tf = library("tensorflow", asker="as_tf()")

    def batches() -> Iterator[Any]:
        raw = loader._raw(None) if epochs is None else epochs()
        shaped = loader._batches(raw, lambda array: array)
        return ((batch,) for batch in shaped) if tuples and not isinstance(signature, tuple) else shaped

    signature = spec(loader, tf)
    element = (signature,) if tuples and not isinstance(signature, tuple) else signature
    made = tf.data.Dataset.from_generator(batches, output_signature=element)
    if loader._counts_exactly and not loader._prepared:
        made = made.apply(tf.data.experimental.assert_cardinality(len(loader)))
    options = tf.data.Options()
    options.autotune.enabled = False
    # Files are not split among workers by TensorFlow: each rank reads its own rows.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return made.with_options(options)
