"""Memory for the state that a step leaves, on a CPU: that of the state before the last one, in turns.

In: the states that steps of one program begin with and leave. Out: arrays that the next one may write its results into. Keras gives the
state away to each step, which then needs no new memory for the next one; a step that may have to be taken again holds what it began with
until it is done. What the step before it began with is given away instead. To take the memory anew in each step would take no more of it,
but a system that has to find and clear pages each time: up to a tenth of a step whose weights weigh.
Not given away: what did not come out of the same program, because others may hold it, and arrays too small to matter.
"""

from __future__ import annotations

import jax

#: The parts of the state that an update writes anew.
WRITTEN = ("trainable", "optimizer")
#: Smaller arrays are not worth it; a program may also hand them through as they are (the learning rate), and then they are still in use.
LEAST_BYTES = 64 << 10


class Turns:
    """One state that is no longer needed, as memory for another."""

    def __init__(self) -> None:
        self._free: list | None = None
        #: What the last step left: only that may be given away later.
        self._left: list | None = None
        #: Which arrays are large, by the part of the state: that does not change, and to ask each of them takes time.
        self._large: list | None = None

    def take(self, state: dict) -> list:
        """Arrays of the shapes of this state, which a program may be given for good."""
        free, self._free = self._free, None
        if free is None:
            free = self._of(state)
            return _zeros(free) if free else []
        return free

    def shapes(self, state: dict) -> list:
        """What `take` would give, without memory."""
        return [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in self._of(state)]

    def done(self, before: dict, after: dict) -> None:
        """A step is done: what it began with is not needed any longer."""
        before, after, left = self._of(before), self._of(after), self._left
        if not after:
            return
        ours = left is not None and all(old is new for old, new in zip(left, before))
        # Handed through, or twice in one state: still in use.
        ours = ours and len({*map(id, before)} - {*map(id, after)}) == len(before)
        self._free, self._left = before if ours else None, after

    def forget(self) -> None:
        """Gives the memory back."""
        self._free = self._left = None

    def _of(self, state: dict) -> list:
        if self._large is None:
            written = [(name, index, array) for name in WRITTEN for index, array in enumerate(state[name])]
            self._large = [(name, index) for name, index, array in written if array.nbytes >= LEAST_BYTES]
        return [state[name][index] for name, index in self._large]


@jax.jit
def _zeros(arrays: list) -> list:
    return [jax.numpy.zeros_like(array) for array in arrays]
