"""A training step on TensorFlow, in pieces that can fail and be tried again.

In: a compiled model and parts of batches. Out: gradients, updated weights, logs. A step that runs out of memory has changed nothing but
what `keep` has kept and what `undo` puts back. The update waits for the gradients of the batch; with room to spare both are one graph.
Not done: strategies with several replicas.
"""

from __future__ import annotations

import gc
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import tree

from brimful.fitting import memory
from brimful.fitting.gpu import gpu_limit_bytes

from .. import batches, state, terms
from ..batches import unpacked
from . import tensorflow_assign, tensorflow_blocks


class Backend:
    """TensorFlow under one model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        strategy = getattr(model, "_distribute_strategy", None) or tf.distribute.get_strategy()
        if strategy.num_replicas_in_sync > 1:
            raise ValueError(
                f"the model is distributed over {strategy.num_replicas_in_sync} replicas: brimful trains on one device in one process today; "
                "build the model outside the strategy's scope, or run model.fit itself"
            )
        gpus = tf.config.list_logical_devices("GPU")
        self.device = "GPU:0" if gpus else "CPU:0"
        #: Whether what it allocates is the process's own memory, with no pool that would refuse.
        self.on_host = not gpus and memory.tensorflow_pool_bytes() is None
        self._made: dict[str, Any] = {}
        #: Whether Keras's own graph would know how many samples a batch has.
        self.known_rows = True
        #: After an update has failed, or rows were set aside: with as little memory as it can be done.
        self.lean = False
        #: Whether a whole batch and its update are one graph.
        self.joint = False
        self._before: list | None = None

    def functions(self, job: Any) -> dict:
        """What Keras's loop calls for each batch, by the names it has there."""
        steps = self.model.steps_per_execution

        def over(one: Any) -> Any:
            def function(iterator: Any) -> dict:
                logs = None
                self.known_rows = _has_rows(getattr(iterator, "element_spec", None))
                for _ in range(steps):
                    try:
                        data = next(iterator)
                    except (StopIteration, tf.errors.OutOfRangeError):
                        if logs is None:
                            raise StopIteration from None
                        break
                    logs = one(_without_optionals(data))
                return logs

            return function

        def predict(data: list) -> Any:
            return concatenated([job.predict(unpacked(_without_optionals(batch))) for batch in data])

        train, test = over(lambda data: job.train(unpacked(data))), over(lambda data: job.test(unpacked(data)))
        return {"train_function": train, "test_function": test, "predict_function": predict}

    def one_step(self, train: Any, data: tuple) -> float:
        """A step outside Keras's loop: its loss."""
        self.model.reset_metrics()
        return float(train(iter([data]))["loss"])

    def build(self, data: tuple, training: bool) -> None:
        """Variables that Keras would make in the first step: a failure there would leave some of them."""
        state.build(self.model, data, training)

    # What memory there is.

    def _info(self) -> dict | None:
        try:
            info = tf.config.experimental.get_memory_info(self.device)
        except (ValueError, tf.errors.OpError):
            return None
        return info if info["peak"] else None

    def used_bytes(self) -> int | None:
        info = self._info()
        return info and info["current"]

    def peak_bytes(self) -> int | None:
        info = self._info()
        return info and info["peak"]

    def reset_peak(self) -> None:
        if self._info():
            tf.config.experimental.reset_memory_stats(self.device)

    def limit_bytes(self) -> int | None:
        """What the allocator may hold altogether, this job's share of it included."""
        if self.device.startswith("GPU"):
            return gpu_limit_bytes(_configured_limit())
        return memory.tensorflow_pool_bytes() or memory.host_room_bytes() + (self.used_bytes() or 0)

    def forget(self) -> None:
        """The model computes in another way from here on: what was traced is out of date."""
        self._made.clear()

    def proposed(self, job: Any, data: tuple, rows: int, start: int | None, limit_bytes: int) -> int | None:
        """Nothing: the plan's proposal stands."""
        return None

    def join(self, copies: int) -> None:
        """Takes a whole batch and its update as one graph, as Keras does, if old and new values fit beside the activations."""
        self.joint = copies > 0 and bool(self.model.trainable_weights)

    def rest(self) -> None:
        """Nothing: what a step holds goes with it."""

    def release(self) -> None:
        """Lets go of what a failed attempt left in cycles of references."""
        gc.collect()

    def part(self, data: tuple, begin: int, end: int) -> tuple:
        """Some of the samples of a batch, in order."""
        return batches.part(data, begin, end)

    # What a forward pass changes.

    def keep(self) -> list:
        """Moving averages, seeds and metrics as they are. Nothing is copied until it is overwritten."""
        small = self._small()
        # A step may make the shared generator of random numbers: another list, and another graph.
        return self._call(f"keep {len(small)}", lambda: [variable.value for variable in small], jit=False)

    def put_back(self, kept: list) -> None:
        for variable, value in zip(self._small(), kept):
            variable.assign(value)

    def _small(self) -> list:
        return state.changed_by_forward(self.model)

    # Training.

    def whole(self, data: tuple) -> tuple:
        """Keras's own step up to the gradients: those, and the logs. Where the update is part of it, no gradients are left."""
        joint = self.joint

        def step(data: tuple) -> tuple:
            x, y, weights = data
            with tf.GradientTape() as tape:
                y_pred = self.forward(x, training=True)
                with terms.untracked(self.model) as values:
                    loss = self.model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weights, training=True)
                self._track(loss, values, tf.shape(_first(x))[0])
                scaled = self.model.optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, self.model.trainable_weights)
            if joint:
                gradients = self._apply(gradients)
            return gradients, self.model.compute_metrics(x, y, y_pred, sample_weight=weights)

        if joint:
            self._hold()
        answer = self._call(f"whole {joint}", step, data)
        self._before = None
        return answer

    def counts(self, data: tuple) -> list:
        """What a part divides its losses by. What does not lead to a number of these is not run."""

        def count(data: tuple) -> list:
            x, y, weights = data
            return terms.part_counts(self.model, x, y, self.forward(x, training=False), weights)

        return self._call("counts", count, data)

    def gradients(self, data: tuple, rule: terms.Rule, share: float, counts: list, before: list | None, collect: bool) -> tuple:
        """The gradients of the parts so far, with this one's; its part of the loss, and of each of several; its predictions."""

        def step(data: tuple, share: Any, counts: list, before: list | None) -> tuple:
            x, y, weights = data
            with tf.GradientTape() as tape, state.moving_averages(self.model, share):
                y_pred = self.forward(x, training=True)
                loss, values = terms.part_loss(self.model, rule, x, y, y_pred, weights, True, share, counts)
                scaled = self.model.optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, self.model.trainable_weights)
            if before is not None:
                gradients = [_add(old, new) for old, new in zip(before, gradients)]
            if not collect:
                self.model.compute_metrics(x, y, y_pred, sample_weight=weights)
            return gradients, loss, values, state.with_masks(y_pred) if collect else None

        whole = None if before is None else [None if isinstance(each, list) else each for each in before]
        gradients, *rest = self._call(f"gradients {collect}", step, data, tf.constant(share, _share_type()), counts, whole)
        # Rows of an embedding stay rows, as many as the parts have: added up they would be as large as the embedding, and Keras's
        # optimizers square the rows of a batch before they add those of the same token.
        olds = before or [None] * len(gradients)
        rows = [[*(old or []), self._waiting(new)] if isinstance(new, tf.IndexedSlices) else new for old, new in zip(olds, gradients)]
        return rows, *rest

    def _waiting(self, rows: Any) -> Any:
        return tensorflow_blocks.to_host(rows) if self.lean else rows

    def doubted(self, data: tuple, y_pred: Any, rule: terms.Rule, training: bool, share: float, counts: list) -> list:
        """What the rule has from a few samples only, of others whose predictions are there."""

        def ask(data: tuple, y_pred: Any, share: Any, counts: list) -> list:
            x, y, weights = data
            return terms.doubted(self.model, rule, x, y, state.without_masks(y_pred, loss=True), weights, training, share, counts)

        return self._call(f"doubted {training}", ask, data, y_pred, tf.constant(share, _share_type()), counts)

    def set_aside(self, gradients: list | None) -> bool:
        """Moves rows that wait for the other parts to the host, from now on at once; whether that made room.

        A batch has as many rows as tokens: together they may be larger than the embedding itself.
        """
        made_room = False
        for index, gradient in enumerate(gradients or []):
            if isinstance(gradient, tf.IndexedSlices):
                gradient = gradients[index] = [gradient]
            for part, rows in enumerate(gradient if isinstance(gradient, list) else []):
                made_room = made_room or not tensorflow_blocks.on_host(rows)
                gradient[part] = tensorflow_blocks.to_host(rows)
        self.lean = self.lean or made_room
        return made_room

    def update(self, gradients: list) -> None:
        """All weights and the optimizer's state. Where it fails, `undo` puts back what was changed."""
        weights, optimizer = self.model.trainable_weights, self.model.optimizer
        if not self.lean and not self._too_many(gradients):
            self._hold()
            joined = [tensorflow_blocks.joined(gradient) for gradient in gradients]
            self._call("update", self._apply, joined)
        else:
            self.set_aside(gradients)
            self._before = tensorflow_blocks.read(self._updated())
            if tensorflow_blocks.possible(optimizer):
                held = {id(variable): numbers for variable, numbers in zip(self._updated(), self._before)}
                tensorflow_blocks.apply(optimizer, gradients, weights, held)
            else:
                # One operation after the other: a graph runs several at once, each with results as large as a weight.
                optimizer.apply_gradients(zip(map(tensorflow_blocks.joined, gradients), weights))
        self._before = None

    def _hold(self) -> None:
        """Handles, not copies: what the update overwrites stays alive until they are dropped."""
        self._before = self._call("read", lambda: [variable.value for variable in self._updated()], jit=False)

    def _apply(self, gradients: list) -> None:
        with tensorflow_assign.new_values(self.model.optimizer):
            self.model.optimizer.apply_gradients(zip(gradients, self.model.trainable_weights))

    def _too_many(self, gradients: list) -> bool:
        """Whether there is surely no room for the rows of all parts as one tensor, and for new values beside the old ones.

        TensorFlow would wait ten seconds for that memory, each time.
        """
        waiting = [part.values for gradient in gradients if isinstance(gradient, list) and len(gradient) > 1 for part in gradient]
        if not waiting:
            return False
        free = self.limit_bytes() - (self.used_bytes() or 0)
        return sum(map(batches.bytes_of, [*waiting, *self._updated()])) > free

    def undo(self) -> None:
        """Puts back what a failed update has changed. Called when its temporaries are gone."""
        if self._before is not None:
            for variable, value in zip(self._updated(), self._before):
                if isinstance(value, tf.Tensor):
                    variable.assign(value)
                else:
                    tensorflow_blocks.write(variable, value)
            self._before = None

    def _updated(self) -> list:
        return [*self.model.trainable_weights, *self.model.optimizer.variables]

    def finish(self, data: tuple, rows: int, losses: list, values: list[list], predictions: list | None) -> dict:
        """The metrics of the whole batch, as logs."""

        def metrics(data: tuple, rows: Any, loss: Any, values: list, predicted: Any) -> dict:
            x, y, weights = data
            self._track(loss, values, rows)
            if predicted is None:
                return self.model.get_metrics_result()
            return self.model.compute_metrics(x, y, state.without_masks(predicted), sample_weight=weights)

        predicted = None if predictions is None else concatenated(predictions)
        loss, values = terms.added(losses, values)
        return self._call(f"finish {predictions is None}", metrics, data, tf.constant(rows), loss, values, predicted)

    def _track(self, loss: Any, values: list, rows: Any) -> None:
        """The means of the loss, and of each of several. Keras weighs the latter by a size that its graph mostly does not know."""
        self.model._loss_tracker.update_state(loss, sample_weight=rows)
        known = self.known_rows or self.model.run_eagerly
        for tracker, value in zip(terms.trackers(self.model), values):
            tracker.update_state(value, sample_weight=rows if known else None)

    # Without training.

    def test_whole(self, data: tuple) -> dict:
        """Keras's own step."""

        def step(data: tuple) -> dict:
            x, y, weights = data
            y_pred = self.forward(x, training=False)
            with terms.untracked(self.model) as values:
                loss = self.model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weights, training=False)
            self._track(loss, values, tf.shape(_first(x))[0])
            return self.model.compute_metrics(x, y, y_pred, sample_weight=weights)

        return self._call("test", step, data)

    def test_part(self, data: tuple, rule: terms.Rule, share: float, counts: list, collect: bool) -> tuple:
        def step(data: tuple, share: Any, counts: list) -> tuple:
            x, y, weights = data
            y_pred = self.forward(x, training=False)
            loss, values = terms.part_loss(self.model, rule, x, y, y_pred, weights, False, share, counts)
            if not collect:
                self.model.compute_metrics(x, y, y_pred, sample_weight=weights)
            return loss, values, state.with_masks(y_pred) if collect else None

        return self._call(f"test_part {collect}", step, data, tf.constant(share, _share_type()), counts)

    def predict(self, data: tuple) -> Any:
        return self._call("predict", self.model.predict_step, data)

    def concatenate(self, pieces: list) -> Any:
        return concatenated(pieces)

    def asked(self, ask: Any, *args: Any) -> Any:
        """What a function says that calls the model outside a step. With all digits of the numbers: a GPU may multiply with ten bits."""
        experimental = tf.config.experimental
        coarse = experimental.tensor_float_32_execution_enabled()
        experimental.enable_tensor_float_32_execution(False)
        try:
            return ask(*args)
        finally:
            experimental.enable_tensor_float_32_execution(coarse)

    def others(self, metrics: bool) -> list:
        """State that is neither BatchNorm's nor a seed, by its path; metrics: with those of the model's own."""
        return [(variable.path, variable.numpy()) for variable in state.others(self.model, metrics)]

    def seeds(self) -> list:
        """The states of what draws random numbers."""
        return [variable.numpy() for variable in state.seeds(self.model)]

    def set_seeds(self, values: list) -> None:
        for variable, value in zip(state.seeds(self.model), values):
            variable.assign(value)

    def forward(self, x: Any, training: bool) -> Any:
        return self.model(x, training=training) if self.model._call_has_training_arg else self.model(x)

    def _call(self, name: str, step: Any, *args: Any, jit: bool = True) -> Any:
        args = tuple(_tensors(arg) if isinstance(arg, tuple) else arg for arg in args)
        if self.model.run_eagerly:
            return step(*args)
        if name not in self._made:
            compiled = self.model.jit_compile if jit else False
            self._made[name] = tf.function(step, reduce_retracing=True, jit_compile=compiled, autograph=False)
        return self._made[name](*args)


def _tensors(batch: tuple) -> tuple:
    """Rows of arrays, as tensors."""
    return tree.map_structure(lambda leaf: tensorflow_blocks.tensor(leaf) if isinstance(leaf, np.ndarray) else leaf, batch)


def _without_optionals(data: Any) -> Any:
    return tree.map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, data)


def _has_rows(spec: Any) -> bool:
    if spec is None:
        return True
    shapes = [leaf.shape for leaf in tf.nest.flatten(spec) if hasattr(leaf, "shape")]
    return bool(shapes) and all(shape.rank and shape[0] is not None for shape in shapes)


def _share_type() -> str:
    return "float64" if keras.backend.floatx() == "float64" else "float32"


def _first(x: Any) -> Any:
    return next(leaf for leaf in tree.flatten(x) if leaf is not None)


def _add(old: Any, new: Any) -> Any:
    return new if old is None else old if new is None else old + new


def concatenated(pieces: list) -> Any:
    """Results of parts as results of the batch."""
    if len(pieces) == 1:
        return pieces[0]
    return tree.map_structure(lambda *leaves: None if leaves[0] is None else tf.concat(leaves, 0), *pieces)


def _configured_limit() -> int | None:
    device = tf.config.list_physical_devices("GPU")[0]
    configured = tf.config.get_logical_device_configuration(device)
    limit = configured[0].memory_limit if configured else None
    return int(limit) << 20 if limit else None
