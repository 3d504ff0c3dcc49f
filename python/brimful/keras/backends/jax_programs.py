"""What a step on JAX computes, as functions of the state and the batch: nothing is called here, and nothing is held.

In: a compiled model. Out: functions that `jax.jit` takes: of values by the names of `jax_ahead.TRAIN`, and of data, to new values and logs. When
they run, what is given away, and what happens when there is no memory is not their concern (`jax`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
from keras import tree
from keras.src.backend.common.stateless_scope import get_stateless_scope

from .. import state, terms
from .jax_ahead import TRAIN


class Programs:
    """The functions of one model."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def variables(self, name: str) -> list:
        """Keras's variables of one part of the state."""
        if name == "optimizer":
            return list(self.model.optimizer.variables)
        return list(getattr(self.model, f"{name}_variables"))

    @contextlib.contextmanager
    def scope(self, values: dict) -> Iterator[Any]:
        """Keras's variables have these values inside."""
        mapping = [pair for name in values for pair in zip(self.variables(name), values[name])]
        try:
            with keras.StatelessScope(state_mapping=mapping) as scope:
                yield scope
        finally:
            self.model._losses_override = []

    def _after(self, scope: Any, name: str, values: dict) -> list:
        found = [scope.get_current_value(variable) for variable in self.variables(name)]
        return [old if new is None else new for old, new in zip(values[name], found)]

    def forward(self, x: Any, training: bool) -> Any:
        """The model's results, as Keras's trainer has them on JAX: of `call` alone. Layers inside are not told that it is training if the model's own `call` does not
        tell them, and of a layer that is called twice only the last losses count; on other backends both is otherwise."""
        model, scope = self.model, get_stateless_scope()
        named = {"training": training} if model._call_has_training_arg else {}
        moving = model.non_trainable_variables
        held = [[_current(scope, variable) for variable in variables] for variables in (model.trainable_variables, moving)]
        # Else these would be given again.
        model._losses_override = []
        y_pred, moved, losses = model.stateless_call(*held, x, return_losses=True, **named)
        for pair in zip(moving, moved):
            scope.add_update(pair)
        # Keras's loss looks for them there.
        model._losses_override = losses
        return y_pred

    def whole(self, values: dict, data: tuple) -> tuple:
        """Keras's own step up to the gradients."""
        rows = next(leaf for leaf in tree.flatten(data[0]) if leaf is not None).shape[0]

        def loss_of(trainable: list) -> tuple:
            inside = {**values, "trainable": trainable}
            x, y, weights = data
            with self.scope(inside) as scope:
                y_pred = self.forward(x, training=True)
                loss = self.model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weights, training=True)
                self.model._loss_tracker.update_state(loss, sample_weight=rows)
                scaled = self.model.optimizer.scale_loss(loss)
                state.drop_masks(y_pred)
                logs = self.model.compute_metrics(x, y, y_pred, sample_weight=weights)
            return scaled, (self._after(scope, "non_trainable", inside), self._after(scope, "metrics", inside), logs)

        (_, (moving, metrics, logs)), gradients = jax.value_and_grad(loss_of, has_aux=True)(values["trainable"])
        return gradients, moving, metrics, logs

    def whole_and_update(self, values: dict, data: tuple) -> tuple:
        """Keras's own step."""
        gradients, moving, metrics, logs = self.whole(values, data)
        trainable, optimizer = self.update(values["trainable"], values["optimizer"], gradients)
        # The state first: what is given away is used for results in their order, and a log in the place of a weight would move all others.
        return dict(zip(TRAIN, map(list, (trainable, moving, optimizer, metrics)))), logs

    def update(self, trainable: list, optimizer: list, gradients: list) -> tuple:
        """All weights and the optimizer's state."""
        return self.model.optimizer.stateless_apply(optimizer, gradients, trainable)

    def counts(self, values: dict, data: tuple) -> list:
        """What a part divides its losses by. What does not lead to a number of these is not run."""
        x, y, weights = data
        with self.scope(values):
            return terms.part_counts(self.model, x, y, self.forward(x, training=False), weights)

    def gradients(self, rule: terms.Rule, collect: bool) -> Callable[..., tuple]:
        """Those of a part, added to those before; what it changed, its losses, and its predictions if they are collected."""

        def step(values: dict, data: tuple, share: Any, counts: list, before: list) -> tuple:
            def loss_of(trainable: list) -> tuple:
                inside = {**values, "trainable": trainable}
                with self.scope(inside) as scope, state.moving_averages(self.model, share):
                    loss, losses, predicted = self._part(rule, collect, data, share, counts, training=True)
                    scaled = self.model.optimizer.scale_loss(loss)
                return scaled, (self._after(scope, "non_trainable", inside), self._after(scope, "metrics", inside), loss, losses, predicted)

            (_, after), gradients = jax.value_and_grad(loss_of, has_aux=True)(values["trainable"])
            return [old + new for old, new in zip(before, gradients)], after

        return step

    def doubted(self, rule: terms.Rule, training: bool) -> Callable[..., list]:
        """What the rule has from a few samples only, of others whose predictions are there."""

        def ask(values: dict, data: tuple, y_pred: Any, share: Any, counts: list) -> list:
            x, y, weights = data
            with self.scope(values):
                return terms.doubted(self.model, rule, x, y, state.without_masks(y_pred, loss=True), weights, training, share, counts)

        return ask

    def test_part(self, rule: terms.Rule, collect: bool) -> Callable[..., tuple]:
        """The losses of a part, its predictions if they are collected, and the metrics."""

        def step(values: dict, data: tuple, share: Any, counts: list) -> tuple:
            with self.scope(values) as scope:
                loss, losses, predicted = self._part(rule, collect, data, share, counts, training=False)
            return loss, losses, predicted, self._after(scope, "metrics", values)

        return step

    def _part(self, rule: terms.Rule, collect: bool, data: tuple, share: Any, counts: list, training: bool) -> tuple:
        x, y, weights = data
        y_pred = self.forward(x, training=training)
        loss, losses = terms.part_loss(self.model, rule, x, y, y_pred, weights, training, share, counts)
        kept = (state.masks_for_loss(y_pred) if training else state.with_masks(y_pred)) if collect else None
        if training:
            state.drop_masks(y_pred)
        if not collect:
            self.model.compute_metrics(x, y, y_pred, sample_weight=weights)
        return loss, losses, kept

    def finish(self, held: dict, data: tuple, rows: Any, losses: list, values: list[list], predictions: list | None) -> tuple:
        """The logs and metrics of a batch whose parts had these losses, and predictions if they were collected."""
        x, y, weights = data
        loss, values = terms.added(losses, values)
        with self.scope(held) as scope:
            self.model._loss_tracker.update_state(loss, sample_weight=rows)
            for tracker, value in zip(terms.trackers(self.model), values):
                tracker.update_state(value, sample_weight=rows)
            if predictions is None:
                logs = self.model.get_metrics_result()
            else:
                logs = self.model.compute_metrics(x, y, state.without_masks(concatenated(predictions)), sample_weight=weights)
        return logs, self._after(scope, "metrics", held)


def _current(scope: Any, variable: Any) -> Any:
    value = scope.get_current_value(variable)
    return variable.value if value is None else value


def concatenated(pieces: list) -> Any:
    """Results of parts as results of the batch."""
    if len(pieces) == 1:
        return pieces[0]
    return tree.map_structure(lambda *leaves: None if leaves[0] is None else jax.numpy.concatenate(leaves), *pieces)
