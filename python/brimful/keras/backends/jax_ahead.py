"""Training steps on JAX that Keras's loop does not wait for, as it does not for its own: the device does not wait for the host.

In: the state and the batches of Keras's loop. Out: the state and the logs that there will be. A step that ran out of memory is taken again
in the ordinary way, and so are those that were begun on its result. For that, a state and the batches since then, or what draws them once more, are held: what a step in
parts began with; for whole batches, which leave the next state in the place of the last one, a copy every so many steps (a lap). Where there
is room for two, nobody waits for the copy either: what is held for the lap before is held until the copy is there. Whoever
reads logs or the model's variables waits for them. Only batches of a size that went well are taken like this, and none after the first
failure. Where there is room, whole batches are begun before the last one is done: to wait for each of many short steps would be a good part
of them. For the same reason a batch like the one before it in its lap is handed to the program with nothing looked at again.
"""

from __future__ import annotations

import threading
import time
from collections import UserList, deque
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from brimful.fitting import failure

from .. import batches
from . import jax_sizes
from .jax_drawing import Drawn

#: The parts of the state, in the order of Keras's loop, and Keras's names for them.
TRAIN = ("trainable", "non_trainable", "optimizer", "metrics")
STATE = tuple(f"{name}_variables" for name in TRAIN)


class Values(UserList):
    """The values of one part of the state, as Keras's loop holds them. Of a list it would make another one after each step, and look
    through all of it for variables: a good part of a small step, and it would not be the one that was promised."""

    def __init__(self, values: list) -> None:
        # The list itself.
        self.data = values

    def __iter__(self) -> Iterator:
        return iter(self.data)


class Logs(dict):
    """The logs of a step, which wait for it when their values are read."""

    #: Waits for the step; nothing when it is done, so that logs that somebody keeps do not keep the state.
    wait: Callable[[], None] | None = None

    def _wait(self) -> None:
        wait = self.wait
        if wait is not None:
            wait()

    def items(self) -> Any:
        self._wait()
        return super().items()

    def values(self) -> Any:
        self._wait()
        return super().values()

    def get(self, key: str, default: Any = None) -> Any:
        self._wait()
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._wait()
        return super().__getitem__(key)


def came_to_be(wait: Callable[[], Any]) -> bool:
    """Whether what is waited for is there, or there was no memory for it."""
    try:
        wait()
    except Exception as error:
        if not failure.is_out_of_memory(error):
            raise
        failure.forget(error)
        return False
    return True


class Lap:
    """Steps from a state that is held: whichever of them fails, all are taken again from there."""

    def __init__(self, state: tuple, steps: int, before: Lap | None = None) -> None:
        self.state = state
        #: So many more may be begun.
        self.left = self.steps = steps
        self._began = time.monotonic()
        #: Whether batches are held for it, which take memory.
        self.holds = False
        #: The batches of those that are done.
        self.done: list = []
        #: The lap before, as long as nobody knows whether the state, a copy, came to be.
        self._before = before

    def extend(self) -> None:
        """Some more steps, if that costs little."""
        if not self.holds and self.steps < jax_sizes.LAP_MOST_STEPS and time.monotonic() - self._began < jax_sizes.LAP_SECONDS:
            self.left = min(jax_sizes.LAP_STEPS, jax_sizes.LAP_MOST_STEPS - self.steps)
            self.steps += self.left

    def know(self) -> None:
        """All steps before this lap are done: whether its state is there. If not, both laps are one."""
        before, self._before = self._before, None
        if before is None or came_to_be(lambda: jax.block_until_ready(self.state)):
            return
        before.know()
        self.state, self.done = before.state, [*before.done, *self.done]


class Begun:
    """A step that runs: what it will leave, and what is needed to take it again."""

    def __init__(self, lap: Lap, data: Any, rows: int) -> None:
        self.lap, self.data, self.rows, self.logs, self.after, self.parts = lap, data, rows, Logs(), None, 1
        #: Whether one program makes all that it leaves: it is there together, or fails together.
        self.joint = False
        #: Whether it was not even begun for another reason than memory.
        self.interrupted = False
        self.done = False
        #: Whether the logs were read, or are on their way to the host.
        self._read = self._sent = False
        #: Held while the step runs.
        self._running = threading.Lock()
        self._running.acquire()

    def send_logs(self) -> None:
        """Somebody will read them: the device sends them when it is done, and is not asked for one after the other then."""
        for value in dict.values(self.logs):
            value.copy_to_host_async()
        self._sent = True

    def wait(self) -> None:
        """Until the device is done with it; raises what it failed with."""
        if not self.joint:
            # The logs are there before the update is.
            jax.block_until_ready([dict.copy(self.logs), *(list(part)[:1] for part in self.after)])
        elif self._sent:
            for value in dict.values(self.logs):
                np.asarray(value)
        elif not self._read:
            first = next(iter(dict.values(self.logs)), None)
            jax.block_until_ready([list(part)[:1] for part in self.after] if first is None else first)

    def wait_elsewhere(self) -> None:
        """On another thread, where Keras shows its progress: a step that failed is the loop's to take again."""
        try:
            # As Keras would: an array keeps what was read of it.
            for value in dict.values(self.logs):
                np.asarray(value)
            self._read = True
        except Exception:  # noqa: BLE001 -- the loop sees it, too
            with self._running:
                pass

    def end(self) -> None:
        """Nothing is held any longer that is not needed to go on, and nobody waits."""
        self.lap = self.data = self.logs.wait = None
        if not self.done:
            self.done = True
            self._running.release()


class Ahead:
    """Keras's train function, with some steps that run."""

    def __init__(self, backend: Any, job: Any, train: Callable) -> None:
        self._backend, self._job, self._train = backend, job, train
        #: The oldest first; each begins with what the one before it leaves.
        self._begun: deque[Begun] = deque()
        #: What Keras was promised last, known by the first part of it, and what there is in its place, if steps were taken again.
        self._promised: Values | None = None
        self._after: tuple = ()
        #: Whole batches go on in it; of this shape were those of it, and of so many samples.
        self._lap: Lap | None = None
        self._shape: list = []
        self._rows = 0
        #: Whether Keras's loop reads the logs of each step, as it does where a callback is given them.
        self._reads = False

    def step(self, values: tuple, iterator: Any) -> tuple:
        """One batch: its logs and the state after it, both perhaps to come."""
        backend, lap = self._backend, self._lap
        data = next(iterator)
        if lap is not None and lap.left and values[0] is self._promised and _shape(data) == self._shape:
            given, held = backend.kept(data, self._job.still)
            return self._begin(lap, held, self._rows, lambda: backend.go_on(values, given))
        if not (backend.promises or backend.lap_steps):
            return self._wait_for(self.current(values), data)
        rows = batches.rows(batches.unpacked(data)[0])
        if backend.lap_steps and self._job.goes_well(rows, whole=True):
            return self._begin_whole(values, data, rows)
        values = self.current(values)
        if backend.promises and self._job.goes_well(rows):
            return self._begin(Lap(values, 1), data, rows, self._looked_at(values, data, rows))
        return self._wait_for(values, data)

    def current(self, values: tuple) -> tuple:
        """The state to go on with, for one that Keras was promised: no step runs any longer, and those that failed were taken again."""
        self.rest()
        if values[0] is not self._promised:
            self._promise(None, values)
        return self._after

    def rest(self) -> None:
        """No step runs any longer, and nothing is held that one would be taken again from."""
        self._settle()
        self._lap = None

    def sync(self) -> None:
        """Gives the model's variables their values, as Keras does."""
        try:
            self.rest()
        except Exception:
            # As far as the steps went.
            self._hand_over()
            raise
        self._hand_over()

    def _hand_over(self) -> None:
        """From here on the state is the variables'."""
        model = self._backend.model
        held = getattr(model, "_jax_state", None)
        if held and held[STATE[0]] is self._promised:
            model._jax_state = dict(zip(STATE, self._after))
        self._promise(None, ())
        type(model).jax_state_sync(model)

    def _promise(self, promised: Values | None, after: tuple) -> None:
        self._promised, self._after = promised, after

    def _wait_for(self, values: tuple, data: Any) -> tuple:
        """A step in the ordinary way."""
        result = self._train(values, iter([data]))
        self._promise(None, ())
        return result

    def _begin_whole(self, values: tuple, data: Any, rows: int) -> tuple:
        """A whole batch: in the lap that the last one was in, or in a new one, from a copy of its state."""
        lap = self._lap
        given, held = self._backend.kept(data, self._job.still)
        if lap is not None and values[0] is self._promised:
            if not lap.left:
                lap.extend()
            if not lap.left and self._backend.runs_ahead:
                self._lap = lap = self._next(lap, values)
            if lap.left:
                return self._begin(lap, held, rows, self._looked_at(values, given, rows))
        values = self.current(values)
        if not self._backend.lap_steps:
            # A step before it has failed.
            return self._wait_for(values, data)
        self._lap, self._shape, self._rows = Lap(values, self._backend.lap_steps), _shape(data), rows
        return self._begin(self._lap, held, rows, self._looked_at(values, given, rows, copies=True))

    def _looked_at(self, values: tuple, data: Any, rows: int, copies: bool = False) -> Callable[[], tuple]:
        """Begins a step in the job's way: a batch of any shape, whole or in parts."""
        return lambda: self._backend.begin(self._job, dict(zip(TRAIN, values)), batches.unpacked(data), rows, copies)

    def _next(self, lap: Lap, values: tuple) -> Lap:
        """The lap after this one, before its last step is done; this one if there is no room."""
        try:
            copy = self._backend.begin_copy(dict(zip(TRAIN, values)))
        except Exception as error:
            if not failure.is_out_of_memory(error):
                raise
            failure.forget(error)
            return lap
        return Lap(tuple(copy[name] for name in TRAIN), self._backend.lap_steps, lap)

    def _begin(self, lap: Lap, held: Any, rows: int, begin: Callable[[], tuple]) -> tuple:
        """One step more; held: the batch that it would be taken again from."""
        begun = Begun(lap, held, rows)
        lap.left -= 1
        lap.holds = lap.holds or not isinstance(held, Drawn)
        try:
            logs, after, begun.parts = begin()
            begun.joint = self._backend.joint and begun.parts == 1
            dict.update(begun.logs, logs)
            begun.after = tuple(Values(after[name]) for name in TRAIN)
            if self._reads:
                begun.send_logs()
        except BaseException as error:
            if failure.is_out_of_memory(error):
                failure.forget(error)
            else:
                if not isinstance(error, Exception):
                    # What the step was given may be gone: it is taken again before anybody looks.
                    begun.interrupted = True
                    self._begun.append(begun)
                raise
        loop = threading.get_ident()
        begun.logs.wait = lambda: self._read(begun) if threading.get_ident() == loop else begun.wait_elsewhere()
        self._begun.append(begun)
        if begun.after is None or not begun.logs:
            # Refused; or a model without logs, whose state the next step will be given.
            self._settle()
        # Not before this one is begun: right after a state was let go, to begin a program took half as long again (on an H200).
        while len(self._begun) > self._most_begun():
            self._settle(self._begun[0])
        after = begun.after
        self._promise(after[0], after)
        if begun.joint:
            # It was given to the next step by the time this one is looked at: the arrays are empty, and many.
            begun.after = ()
        return begun.logs, after

    def _read(self, begun: Begun) -> None:
        """Keras's loop reads the logs of a step."""
        self._reads = True
        self._settle(begun)

    def _most_begun(self) -> int:
        return max(int(self._backend.promises), self._backend.runs_ahead - 1)

    def _settle(self, last: Begun | None = None) -> None:
        """Waits for the steps up to this one, or for all. Those that ran out of memory are taken again."""
        while self._begun and not (last is not None and last.done):
            wanted = self._begun[-1] if last is None else last
            try:
                # Each begins with what the one before it leaves: when one went well, so did all before it.
                if self._went_well(wanted):
                    while not wanted.done:
                        self._finished()
                elif self._went_well(self._begun[0]):
                    self._finished()
                else:
                    self._again()
            except Exception:
                # Whoever waits for them waits no longer. An interrupt is no end: the steps are still running.
                while self._begun:
                    self._begun.popleft().end()
                raise

    def _went_well(self, begun: Begun) -> bool:
        return begun.after is not None and came_to_be(begun.wait)

    def _finished(self) -> None:
        """The oldest one is done."""
        begun = self._begun.popleft()
        begun.lap.know()
        self._job.stepped(begun.rows, begun.parts)
        begun.lap.done.append(begun.data)
        begun.end()

    def _again(self) -> None:
        """The oldest one ran out of memory: what was begun on its result has no result either, and all since the state that is held are
        taken again in their order. Each step of this is kept: it may be interrupted, and gone on with."""
        lap, interrupted = self._begun[0].lap, self._begun[0].interrupted
        lap.know()
        self._lap = None
        for begun in self._begun:
            try:
                if begun.after is not None:
                    begun.wait()
            except Exception as error:  # noqa: BLE001 -- the first one's failure, handed on
                failure.forget(error)
            begun.lap, begun.after = lap, None
        # Each step is waited for from here on.
        self._backend.runs_ahead, self._backend.lap_steps, self._backend.promises = 0, 0, False
        self._job.begins_again(len(lap.done), interrupted)
        while lap.done:
            self._after = self._taken_again(lap, lap.done[0])[1]
            lap.done.pop(0)
        while self._begun:
            begun = self._begun[0]
            logs, begun.after = self._taken_again(lap, begun.data)
            self._after = begun.after
            dict.update(begun.logs, logs)
            self._begun.popleft().end()

    def _taken_again(self, lap: Lap, held: Any) -> tuple:
        # There may be no memory on the host for it at this moment.
        data = self._job.restored(held.batch) if isinstance(held, Drawn) else held
        logs, lap.state = self._train(lap.state, iter([data]))
        return logs, lap.state


def _shape(data: Any) -> list:
    """Batches of the same shape have the same rows, and the same program."""
    return [getattr(leaf, "shape", None) for leaf in jax.tree_util.tree_leaves(data)]
