"""A training step on JAX, in pieces that can fail and be tried again.

In: a compiled model, its state as Keras passes it, and parts of batches. Out: gradients, the new state, logs. Arrays never change, and
what is given away to a call that may fail is a copy: a step that runs out of memory leaves the state as it was. Each call is waited for,
because an error would otherwise come to light much later, but for steps like those that went well, which Keras need not wait for, and of
which several share a copy (`jax_ahead`). What is computed stands in `jax_programs`. Not done: several devices or processes.
"""

from __future__ import annotations

import gc
import math
from typing import Any

import jax
import keras
import numpy as np
from keras import tree

from brimful.fitting import memory

from .. import batches, state, terms
from ..batches import unpacked
from . import jax_sizes
from .jax_ahead import TRAIN, Ahead, Values
from .jax_drawing import Drawing
from .jax_fetching import Fetching
from .jax_programs import Programs, concatenated

TEST = ("trainable", "non_trainable", "metrics")
PREDICT = ("trainable", "non_trainable")


class Backend:
    """JAX under one model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        distribution = keras.distribution.distribution()
        if jax.process_count() > 1 or (distribution is not None and distribution.device_mesh.devices.size > 1):
            raise ValueError(
                "the job is distributed over several devices: brimful trains on one device in one process today; "
                "leave out keras.distribution.set_distribution, or run model.fit itself"
            )
        self._jax_device = jax.devices()[0]
        self.device = str(getattr(self._jax_device, "device_kind", self._jax_device))
        #: Whether what it allocates is the process's own memory, with no pool that would refuse.
        self.on_host = self._jax_device.platform == "cpu"
        self._programs = Programs(model)
        self.forward = self._programs.forward
        self._made: dict[str, Any] = {}
        #: After an update has failed: with as little memory as it can be done.
        self.lean = False
        #: Whether a whole batch and its update are one.
        self.joint = False
        self._before: tuple | None = None
        #: Steps that Keras need not wait for: its next batch is fetched meanwhile. On a CPU the two would only share the cores.
        self.ahead: Ahead | None = None
        self.promises = self._jax_device.platform != "cpu"
        self._fetching: Fetching | None = None
        self._drawing: Drawing | None = None
        #: Where there is room for it, so many are begun before the first of them is done; none: each when the last one is done.
        self.runs_ahead = 0
        #: So many steps of whole batches may go by until the state is copied again; none: each is waited for, with a copy of its own.
        self.lap_steps = 0
        #: Whether each program is waited for.
        self.waits = True
        #: Whether a whole batch and its update are given the state, and leave the next one in its place. Keras does so, and what is
        #: always in the same place is faster: new memory has to be found and cleared, and a GPU is told all addresses again.
        self.gives = True
        #: The state while Keras's own variables are empty.
        self.values: dict[str, list] = {}

    def functions(self, job: Any) -> dict:
        """What Keras's loop calls for each batch, by the names it has there."""
        steps = self.model.steps_per_execution

        def over_batches(iterator: Any, one: Any, names: tuple) -> tuple:
            results = []
            for _ in range(steps):
                try:
                    data = next(iterator)
                except StopIteration:
                    if not results:
                        raise
                    break
                results.append(one(unpacked(data)))
            result = results[-1] if names is not PREDICT else concatenated(results)
            return result, tuple(Values(self.values[name]) for name in names)

        def over(one: Any, names: tuple) -> Any:
            def function(values: tuple, iterator: Any) -> tuple:
                self.values = dict(zip(names, map(_listed, values)))
                try:
                    return over_batches(iterator, one, names)
                finally:
                    # Nothing is held here that Keras lets go of.
                    self.values = {}

            return function

        self.gives = not self._eager()
        train = over(job.train, TRAIN)
        self.ahead = Ahead(self, job, train)
        if self._fetching is None:
            self._drawing = Drawing()
            self._fetching = Fetching(self._make_room, self._drawing)
        # Callbacks and the end of an epoch ask for the variables through this.
        self.model.__dict__["jax_state_sync"] = self.ahead.sync
        return {
            "train_function": self.ahead.step if steps == 1 else train,
            "test_function": over(job.test, TEST),
            "predict_function": over(job.predict, PREDICT),
        }

    def one_step(self, train: Any, data: tuple) -> float:
        """A step outside Keras's loop: its loss. The variables have their values before and after it."""
        # In a loop of one's own, whoever runs it has the variables after each step: to copy them all each time would cost more than it saves.
        self.gives = False
        self._end_fetching()
        self.model._symbolic_build(data_batch=data)
        self.model.reset_metrics()
        held = tuple([variable.value for variable in self._programs.variables(name)] for name in TRAIN)
        logs, after = train(held, iter([data]))
        after = self.ahead.current(after)
        for name, values in zip(TRAIN, after):
            for variable, value in zip(self._programs.variables(name), values):
                variable.assign(value)
        return float(logs["loss"])

    def build(self, data: tuple, training: bool) -> None:
        """Keras has done it: JAX's state is made before the first step."""

    # What memory there is.

    def _stats(self) -> dict:
        return self._jax_device.memory_stats() or {}

    def used_bytes(self) -> int | None:
        return self._stats().get("bytes_in_use")

    def peak_bytes(self) -> int | None:
        """Nothing: JAX cannot forget a peak, so it is not that of the last step."""
        return None

    def reset_peak(self) -> None:
        """JAX has no way to."""

    def limit_bytes(self) -> int | None:
        return self._stats().get("bytes_limit") or memory.host_room_bytes()

    def forget(self) -> None:
        """The model computes in another way from here on: what was traced is out of date."""
        self._made.clear()

    def join(self, copies: int) -> None:
        """One program for a whole batch and its update, as Keras does, if the new state fits beside the old one."""
        self.joint = copies > 0 and bool(self.model.trainable_variables)
        # The compiler is to say first what the program needs.
        self.runs_ahead = self.lap_steps = 0

    def rest(self) -> None:
        """After the last step of a call: nothing is held."""
        self.ahead = None
        self._end_fetching()
        self.model.__dict__.pop("jax_state_sync", None)

    def _end_fetching(self) -> None:
        if self._fetching is not None:
            self._fetching.end()
            self._drawing.end()
            self._fetching = self._drawing = None

    def _make_room(self) -> None:
        """For a batch: steps that run may have failed, and what they would be taken again from is not needed when they have not."""
        if self.ahead is not None:
            self.ahead.rest()
        self.release()

    def release(self) -> None:
        """Lets go of what a failed attempt left in cycles of references."""
        gc.collect()

    def part(self, data: tuple, begin: int, end: int) -> tuple:
        """Some of the samples of a batch, in order. From arrays on the device as one program: by itself each would be one."""
        leaves = [leaf for leaf in tree.flatten(data) if leaf is not None]
        total = batches.rows(data)
        if (begin, end) == (0, total) or not all(isinstance(leaf, jax.Array) and leaf.shape[:1] == (total,) for leaf in leaves):
            return batches.part(data, begin, end)

        size = end - begin

        def cut(data: tuple, first: Any) -> tuple:
            return tree.map_structure(lambda leaf: None if leaf is None else jax.lax.dynamic_slice_in_dim(leaf, first, size), data)

        return self._call(f"part {size}", cut, data, begin)

    # What a forward pass changes.

    def keep(self) -> tuple:
        return self.values.get("non_trainable"), self.values.get("metrics")

    def put_back(self, kept: tuple) -> None:
        for name, value in zip(("non_trainable", "metrics"), kept):
            if value is not None:
                self.values[name] = value

    def asked(self, ask: Any, *args: Any) -> Any:
        """What a function says that calls the model outside a step. As one program: else JAX compiles each operation by itself.

        With all digits of the numbers: a GPU multiplies with ten bits, and two numbers of samples differ by more than rounding then.
        """

        def inside(values: dict, *args: Any) -> Any:
            with self._programs.scope(values):
                return ask(*args)

        with jax.default_matmul_precision("highest"):
            if self._eager():
                return inside(self.values, *args)
            return jax.block_until_ready(jax.jit(inside)(self.values, *args))

    # Training.

    def whole(self, data: tuple) -> tuple:
        """Keras's own step up to the gradients: those, and the logs. Where the update is part of it, no gradients are left."""
        if self.joint:
            given = self.copied(self.values) if self.waits else self.values
            self.values, logs = self._call(*self._joined(), given, data, donate=self._donated())
            return None, logs
        gradients, self.values["non_trainable"], self.values["metrics"], logs = self._call("whole", self._programs.whole, self.values, data)
        return gradients, logs

    def begin(self, job: Any, values: dict, data: tuple, rows: int, copies: bool = False) -> tuple:
        """A step that is not waited for: the logs and the state that there will be, and the number of its parts.

        copies: whether a whole batch is given a copy of this state, and not the state itself.
        """
        self.values, self.waits = {name: _listed(value) for name, value in values.items()}, False
        try:
            if copies:
                self.values = self.copied(self.values)
            logs, parts = job.begin(data, rows)
            return logs, self.values, parts
        finally:
            self.values, self.waits = {}, True

    def go_on(self, values: tuple, data: Any) -> tuple:
        """The same for a whole batch like the last one, from the state that the last one leaves: the program, and nothing else."""
        name, step = self._joined()
        after, logs = self._jitted(name, step, self._donated())(dict(zip(TRAIN, map(_listed, values))), unpacked(data))
        return logs, after, 1

    def kept(self, data: Any, still: bool) -> tuple:
        """A batch that will not be waited for, and what it would be taken again from: itself, or what makes it once more.

        Arrays that somebody may fill again, as a generator may, are copied: JAX's own copy would only be made some time later. They are not
        put on the device here: the program does that in a tenth of the time.

        still: whether nobody is called between batches who could write into the arrays that Keras draws from.
        """
        drawn = self._drawing.source(data) if still and self._drawing is not None else None
        if drawn is not None:
            return data, drawn
        if any(isinstance(leaf, np.ndarray) for leaf in jax.tree_util.tree_leaves(data)):
            data = jax.tree_util.tree_map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, data)
        return data, data

    def copied(self, values: dict) -> dict:
        """The state to give away in place of this one; where none is given away, this one."""
        return self._call("copy", lambda values: tree.map_structure(jax.numpy.copy, values), values) if self.gives else values

    def begin_copy(self, values: dict) -> dict:
        """The same of a state that is perhaps to come, not waited for."""
        self.waits = False
        try:
            return self.copied({name: _listed(value) for name, value in values.items()})
        finally:
            self.waits = True

    def copied_bytes(self) -> int:
        """What such a copy takes, if whole batches and their updates are one."""
        return sum(value.nbytes for values in self.values.values() for value in values) if self.joint and self.gives else 0

    def whole_program(self, data: tuple) -> Any:
        """The same as `whole`, compiled and not run."""
        if not self.joint:
            return self._program("whole", self._programs.whole, self.values, data)
        return self._program(*self._joined(), self.values, data, donate=self._donated())

    def _joined(self) -> tuple:
        """A whole batch and its update as one program, by its name."""
        return "whole and update" if self.gives else "whole and update, nothing given away", self._programs.whole_and_update

    def _donated(self) -> tuple:
        return (0,) if self.gives else ()

    def counts(self, data: tuple) -> list:
        """What a part divides its losses by. What does not lead to a number of these is not run."""
        return self._call("counts", self._programs.counts, self.values, data)

    def gradients(self, data: tuple, rule: terms.Rule, share: float, counts: list, before: list | None, collect: bool) -> tuple:
        """The gradients of the parts so far, with this one's; its part of the loss, and of each of several; its predictions."""
        args = self._part_args(data, share, counts, before)
        gradients, (moving, metrics, loss, losses, predicted) = self._call(
            f"gradients {collect}", self._programs.gradients(rule, collect), *args
        )
        self.values["non_trainable"], self.values["metrics"] = moving, metrics
        return gradients, loss, losses, predicted

    def gradients_program(self, data: tuple, rule: terms.Rule, share: float, collect: bool) -> Any:
        """The same, compiled and not run."""
        counts = self.counts(data) if rule.counted else []
        return self._program(f"gradients {collect}", self._programs.gradients(rule, collect), *self._part_args(data, share, counts, None))

    def _part_args(self, data: tuple, share: float, counts: list, before: list | None) -> tuple:
        if before is None:
            # One program for all parts: compiling a second one takes longer than adding zeros.
            before = self._call("zeros", lambda values: [jax.numpy.zeros_like(value) for value in values], self.values["trainable"])
        return self.values, data, _share(share), counts, before

    def doubted(self, data: tuple, y_pred: Any, rule: terms.Rule, training: bool, share: float, counts: list) -> list:
        """What the rule has from a few samples only, of others whose predictions are there."""
        return self._call(f"doubted {training}", self._programs.doubted(rule, training), self.values, data, y_pred, _share(share), counts)

    def set_aside(self, gradients: list | None) -> bool:
        """Nothing: gradients of parts are added up, and wait where they are needed."""
        return False

    def update(self, gradients: list) -> None:
        """All weights and the optimizer's state. Where it fails, `undo` puts back what was given away."""
        apply = self._programs.update
        args = (self.values["trainable"], self.values["optimizer"], gradients)
        if not self.lean:
            self.values["trainable"], self.values["optimizer"] = map(list, self._call("update", apply, *args))
            return
        # There is no room for both: the old arrays are given away, with copies on the host in case it fails.
        self._before = jax.device_get(args[:2])
        self.values["trainable"], self.values["optimizer"] = map(list, self._call("update in place", apply, *args, donate=(0, 1)))
        self._before = None

    def undo(self) -> None:
        """Puts back what a failed update was given."""
        if self._before is None:
            return
        for name, copies in zip(("trainable", "optimizer"), self._before):
            held = self.values[name]
            self.values[name] = [jax.device_put(copy) if old.is_deleted() else old for old, copy in zip(held, copies)]
        self._before = None

    def finish(self, data: tuple, rows: int, losses: list, values: list[list], predictions: list | None) -> dict:
        """The metrics of the whole batch, as logs."""
        args = ({"metrics": self.values["metrics"]}, data, rows, losses, values, predictions)
        logs, self.values["metrics"] = self._call(f"finish {predictions is None}", self._programs.finish, *args)
        return logs

    concatenate = staticmethod(concatenated)

    # Without training.

    def test_whole(self, data: tuple) -> dict:
        held = tuple(self.values[name] for name in TEST)
        logs, after = self._call("test", self.model.test_step, held, data)
        self.values = {name: list(value) for name, value in zip(TEST, after)}
        return logs

    def test_part(self, data: tuple, rule: terms.Rule, share: float, counts: list, collect: bool) -> tuple:
        args = (self.values, data, _share(share), counts)
        loss, losses, predicted, self.values["metrics"] = self._call(f"test_part {collect}", self._programs.test_part(rule, collect), *args)
        return loss, losses, predicted

    def predict(self, data: tuple) -> Any:
        held = tuple(self.values[name] for name in PREDICT)
        outputs, _ = self._call("predict", self.model.predict_step, held, data)
        return outputs

    def others(self, metrics: bool) -> list:
        """State that is neither BatchNorm's nor a seed, by its path; metrics: with those of the model's own."""
        wanted = {id(variable) for variable in state.others(self.model, metrics)}
        pairs = (pair for name in ("non_trainable", "metrics") for pair in zip(self._programs.variables(name), self.values[name]))
        return [(variable.path, jax.device_get(value)) for variable, value in pairs if id(variable) in wanted]

    def seeds(self) -> list:
        """The states of what draws random numbers."""
        return [jax.device_get(self.values["non_trainable"][index]) for index in self._seed_indices()]

    def set_seeds(self, values: list) -> None:
        changed = list(self.values["non_trainable"])
        for index, value in zip(self._seed_indices(), values):
            changed[index] = jax.device_put(value)
        self.values["non_trainable"] = changed

    def _seed_indices(self) -> list[int]:
        wanted = {id(variable) for variable in state.seeds(self.model)}
        return [index for index, variable in enumerate(self.model.non_trainable_variables) if id(variable) in wanted]

    def _call(self, name: str, step: Any, *args: Any, donate: tuple = ()) -> Any:
        result = (step if self._eager() else self._jitted(name, step, donate))(*args)
        return jax.block_until_ready(result) if self.waits else result

    def _eager(self) -> bool:
        return self.model.run_eagerly or not self.model.jit_compile

    def _jitted(self, name: str, step: Any, donate: tuple = ()) -> Any:
        if name not in self._made:
            self._made[name] = jax.jit(step, donate_argnums=donate)
        return self._made[name]

    def _program(self, name: str, step: Any, *args: Any, donate: tuple = ()) -> Any:
        return self._jitted(name, step, donate).lower(*args).compile()

    def proposed(self, job: Any, data: tuple, rows: int, start: int | None, limit_bytes: int) -> int | None:
        """How many samples at a time the compiler says fit; nothing where nothing is compiled, or it does not say."""
        if self._eager():
            return None
        # Where the device does not tell what is in use, what is left of the machine's memory is the room.
        room = limit_bytes - (self.used_bytes() or 0)
        far_too_large = start is not None and start * jax_sizes.FAR_TOO_LARGE <= rows
        whole_bytes = math.inf if far_too_large else self._whole_bytes(data)
        if self.joint and whole_bytes > room:
            self.joint = False
            whole_bytes = whole_bytes if far_too_large else self._whole_bytes(data)
        if self.joint and self.gives:
            self.lap_steps, self.runs_ahead = jax_sizes.laps(whole_bytes, batches.bytes_of(data), room, self.promises)
        if whole_bytes <= room:
            return rows
        rule = job.rule_for(data, rows)
        if rule is None:
            return None
        return jax_sizes.largest(self, data, rule, job._collects(rows), start if start and start < rows else max(1, rows // 2), room)

    def _whole_bytes(self, data: tuple) -> float:
        """What a whole batch needs beside the state and itself. Asked once for each shape: tracing takes longer than small steps."""
        shapes = tuple((tuple(leaf.shape), str(leaf.dtype)) for leaf in tree.flatten(data) if hasattr(leaf, "shape"))
        key = f"bytes {self.joint} {self.gives} {shapes}"
        if self._made.get(key, math.inf) == math.inf:
            self._made[key] = jax_sizes.whole_bytes(self, data)
        return self._made[key]


def _listed(values: Any) -> list:
    """The values of variables as a list, which nobody changes."""
    return values.data if isinstance(values, Values) else list(values)


def _share(share: float) -> Any:
    """A number of the type of the weights, on the host: an array on the device would be a program of its own."""
    return np.asarray(share, "float64" if keras.backend.floatx() == "float64" else "float32")
