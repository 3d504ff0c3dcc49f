"""A batch in parts.

In: a batch as a loader gives it: a tensor, or tuples, lists and mappings of them, nested. Out: parts of the same form, as views: nothing
is copied. The batch dimension is the first. NumPy's arrays that share it are cut, too, and so are lists with an entry for each sample, as loaders
make of names. What does not share it goes whole with each part.
"""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Callable

import torch

from brimful.fitting import CannotSplit, sizing


def leaves(batch: Any) -> Iterator[torch.Tensor]:
    """The tensors of a batch, in order."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, torch.nn.utils.rnn.PackedSequence):
        raise CannotSplit("the batch holds a PackedSequence, which has no batch dimension: pack it inside the model's forward instead")
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from leaves(value)
    elif isinstance(batch, (tuple, list)):
        for value in batch:
            yield from leaves(value)


def mapped(batch: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """The same batch with each tensor changed."""
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return _alike(batch, {name: mapped(value, change) for name, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped(value, change) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(mapped(value, change) for value in batch) if type(batch) in (tuple, list) else [mapped(v, change) for v in batch]
    return batch


def _alike(batch: Mapping, values: dict) -> Mapping:
    """A mapping of the batch's own kind: a loss may read `batch.labels`, as tokenizers' batches allow."""
    if type(batch) is dict:
        return values
    try:
        same = copy.copy(batch)
        for name, value in values.items():
            same[name] = value
    except Exception:  # noqa: BLE001 -- a mapping that cannot be copied, or does not let itself be changed
        return values
    return same


def rows(batch: Any) -> int:
    """The samples of a batch: the first dimension that most of its tensors share, of the first tensor where none is shared. A list with one entry for
    each of them is as good as tensors that share it."""
    sizes, found = Counter(int(tensor.shape[0]) for tensor in leaves(batch) if tensor.dim() > 0), _counted(batch)
    if not sizes:
        raise ValueError("no tensor of the batch has a first dimension: give at least one whose first dimension is the batch")
    return max(sizes, key=lambda size: found[size])


def _counted(batch: Any) -> Counter:
    """How many tensors there are for each number of samples that a batch may have."""
    if isinstance(batch, torch.Tensor):
        return Counter([int(batch.shape[0])] if batch.dim() > 0 else [])
    values = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (tuple, list)) else ()
    found = sum(map(_counted, values), Counter())
    if type(batch) in (tuple, list) and not found[len(batch)]:
        found[len(batch)] = sum(1 for _ in leaves(batch))
    return found


def take(batch: Any, begin: int, end: int, total: int) -> Any:
    """The samples from `begin` to `end` of a batch of `total`."""
    return _some(batch, total, lambda values: values[begin:end])


def every(batch: Any, first: int, step: int, total: int) -> Any:
    """Every so many samples of a batch of `total`, from `first` on, as views."""
    return _some(batch, total, lambda values: values[first::step])


def pick(batch: Any, chosen: list[int], total: int) -> Any:
    """Chosen samples of a batch of `total`; these are copied."""

    def one(values: Any) -> Any:
        if isinstance(values, torch.Tensor):
            return values.index_select(0, torch.tensor(chosen, device=values.device))
        return type(values)(values[row] for row in chosen) if isinstance(values, (tuple, list)) else values[chosen]

    return _some(batch, total, one)


def _some(batch: Any, total: int, choose: Callable[[Any], Any]) -> Any:
    """The same batch with some of its samples, wherever there is one entry for each."""
    if isinstance(batch, Mapping):
        return _alike(batch, {name: _some(value, total, choose) for name, value in batch.items()})
    if type(batch) in (tuple, list):
        # Names, or boxes: as many as there are samples, and nothing inside that is cut itself.
        if len(batch) == total and not _shares(batch, total):
            return choose(batch)
        return type(batch)(_some(value, total, choose) for value in batch)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_some(value, total, choose) for value in batch))
    if isinstance(batch, (tuple, list)):
        return [_some(value, total, choose) for value in batch]
    return choose(batch) if _shares(batch, total) else batch


def _shares(batch: Any, total: int) -> bool:
    """Whether a tensor or an array, or one inside, has the samples as its first dimension."""
    if isinstance(batch, (Mapping, tuple, list)):
        return any(_shares(value, total) for value in (batch.values() if isinstance(batch, Mapping) else batch))
    return (isinstance(batch, torch.Tensor) or type(batch).__module__ == "numpy") and tuple(getattr(batch, "shape", ()))[:1] == (total,)


def split(batch: Any, size: int) -> Iterator[Any]:
    """The parts of a batch, of at most `size` samples, as equal as possible, the larger ones first, in order, each sample once.

        for part in brimful.torch.split(batch, 32):
            ...

    batch: a tensor, a tuple, a list or a mapping of them, nested. The samples are the first dimension that most tensors share. NumPy's arrays
        that share it are cut as well, and lists with an entry for each sample. Everything else goes whole with each part.
    size: samples at a time.
    """
    try:
        # NumPy's whole numbers, too.
        count = 0 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"size is {size!r}: write a number of samples, 1 or more")
    total = rows(batch)
    for begin, end in sizing.parts(total, count):
        yield take(batch, begin, end, total)
