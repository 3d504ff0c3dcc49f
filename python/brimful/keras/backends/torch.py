"""A training step of Keras on PyTorch, in pieces that can fail and be tried again.

In: a compiled model and parts of batches. Out: gradients, updated weights, logs. PyTorch changes tensors in place: what a piece changes
is copied before, and copied back when it fails. Not done: several devices or ranks; `jit_compile=True` (the step runs as it is written).
"""

from __future__ import annotations

import gc
from typing import Any

import torch
from keras import tree

from brimful.fitting import memory

from .. import batches, state, terms
from ..batches import unpacked


class Backend:
    """PyTorch under one Keras model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        if torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            raise ValueError(
                f"the job runs on {torch.distributed.get_world_size()} ranks: brimful trains on one device in one process today; "
                "start it without torchrun, or run model.fit itself"
            )
        from keras.src.backend.torch.core import get_device

        self._torch_device = torch.device(get_device())
        self.cuda = self._torch_device.type == "cuda"
        if self.cuda and self._torch_device.index is None:
            self._torch_device = torch.device("cuda", torch.cuda.current_device())
        self.device = torch.cuda.get_device_name(self._torch_device) if self.cuda else "CPU"
        #: Whether what it allocates is the process's own memory, with no pool that would refuse.
        self.on_host = not self.cuda
        #: After an update has failed: with as little memory as it can be done.
        self.lean = False
        #: Whether a whole batch and its update are one.
        self.joint = False
        self._before: list | None = None
        self._lists: dict[str, list] = {}
        self._forward_copies, self._update_copies = Copies(), Copies()

    def functions(self, job: Any) -> dict:
        """What Keras's loop calls for each batch, by the names it has there."""
        if self.model.steps_per_execution > 1:
            # Keras says so where it makes these: it passes as many batches at once, of which all but the first would be lost.
            raise ValueError(
                f"`steps_per_execution` must be 1 with the PyTorch backend. Received: steps_per_execution={self.model.steps_per_execution}"
            )

        def without_gradients(one: Any) -> Any:
            def function(data: list) -> Any:
                with torch.no_grad():
                    return one(unpacked(data[0]))

            return function

        return {
            "train_function": lambda data: job.train(unpacked(data[0])),
            "test_function": without_gradients(job.test),
            "predict_function": without_gradients(job.predict),
        }

    def one_step(self, train: Any, data: tuple) -> float:
        """A step outside Keras's loop: its loss."""
        self.model.reset_metrics()
        return float(train([data])["loss"])

    def build(self, data: tuple, training: bool) -> None:
        """Variables that Keras would make in the first step: a failure there would leave some of them."""
        state.build(self.model, data, training)
        self._lists.clear()

    # What memory there is.

    def used_bytes(self) -> int | None:
        return torch.cuda.memory_allocated(self._torch_device) if self.cuda else None

    def peak_bytes(self) -> int | None:
        return torch.cuda.max_memory_allocated(self._torch_device) if self.cuda else None

    def reset_peak(self) -> None:
        if self.cuda:
            torch.cuda.reset_peak_memory_stats(self._torch_device)

    def limit_bytes(self) -> int | None:
        if not self.cuda:
            return memory.host_room_bytes()
        free, total = torch.cuda.mem_get_info(self._torch_device)
        mine = free + torch.cuda.memory_reserved(self._torch_device)
        fraction = getattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0)(self._torch_device)
        return min(mine, int(total * fraction))

    def forget(self) -> None:
        """Nothing is traced here."""

    def proposed(self, job: Any, data: tuple, rows: int, start: int | None, limit_bytes: int) -> int | None:
        """Nothing: the plan's proposal stands."""
        return None

    def join(self, copies: int) -> None:
        """Where there is room for them, the copies that an update is undone from stay from step to step."""
        self.joint = copies > 0 and bool(self.model.trainable_weights)

    def rest(self) -> None:
        """After the last step of a call: nothing is held."""
        self._update_copies.forget()

    def release(self) -> None:
        """Lets go of what a failed attempt left, and of blocks of other sizes."""
        self.model.zero_grad()
        self._update_copies.forget()
        gc.collect()
        if self.cuda:
            torch.cuda.empty_cache()

    def part(self, data: tuple, begin: int, end: int) -> tuple:
        """Some of the samples of a batch, in order."""
        return batches.part(data, begin, end)

    # What a forward pass changes.

    def keep(self) -> tuple:
        """Moving averages, seeds and metrics as they are, and PyTorch's own random state."""
        random = [torch.get_rng_state()] + ([torch.cuda.get_rng_state(self._torch_device)] if self.cuda else [])
        # The generator that layers share may be made by the first step.
        variables = self._listed("forward", lambda: state.changed_by_forward(self.model, shared=False)) + state.shared_seed()
        return self._forward_copies.made(_tensors(variables)), random

    def put_back(self, kept: tuple) -> None:
        copies, random = kept
        _copy(*copies)
        torch.set_rng_state(random[0])
        if self.cuda:
            torch.cuda.set_rng_state(random[1], self._torch_device)

    def _listed(self, name: str, find: Any) -> list:
        """Variables of the model: Keras looks through all layers for them, each time that it is asked."""
        if name not in self._lists:
            self._lists[name] = list(find())
        return self._lists[name]

    def _weights(self) -> list:
        """Those that are trained now: a callback may freeze layers, or unfreeze them."""
        return (
            [weight for weight in self._listed("weights", lambda: self.model.weights) if weight.trainable] if self.model.trainable else []
        )

    def _give_gradients(self, gradients: list) -> None:
        """Puts them where Keras leaves them: callbacks read them there."""
        for weight, gradient in zip(_parameters(self._weights()), gradients):
            weight.grad = gradient

    def _drop_gradients(self) -> None:
        """Those of the step before: they would only take room."""
        for weight in _parameters(self._listed("weights", lambda: self.model.weights)):
            weight.grad = None

    def asked(self, ask: Any, *args: Any) -> Any:
        """What a function says that calls the model outside a step. With all digits of the numbers: a GPU may multiply with ten bits."""
        cudnn, precision = torch.backends.cudnn, torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            with torch.no_grad(), cudnn.flags(cudnn.enabled, cudnn.benchmark, deterministic=cudnn.deterministic, allow_tf32=False):
                return ask(*args)
        finally:
            torch.set_float32_matmul_precision(precision)

    # Training.

    def whole(self, data: tuple) -> tuple:
        """Keras's own step up to the gradients: those, and the logs."""
        x, y, weights = _own_weights(data)
        self._drop_gradients()
        y_pred = self.forward(x, training=True)
        loss = self.model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weights, training=True)
        self.model._loss_tracker.update_state(loss, sample_weight=next(leaf for leaf in tree.flatten(x) if leaf is not None).shape[0])
        gradients = self._gradients(self.model.optimizer.scale_loss(loss))
        with torch.no_grad():
            return gradients, self.model.compute_metrics(x, y, _detached(y_pred), sample_weight=weights)

    def _gradients(self, loss: Any) -> list:
        weights = _parameters(self._weights())
        if not weights:
            return []
        # As Keras does, and not `autograd.grad`: that leaves some in another order in memory than their weights, which optimizers then
        # update one by one, and it takes time to find the way to chosen weights.
        loss.backward()
        gradients = [weight.grad for weight in weights]
        for weight in weights:
            weight.grad = None
        return gradients

    def counts(self, data: tuple) -> list:
        """What a part divides its losses by."""
        x, y, weights = data
        with torch.no_grad():
            return terms.part_counts(self.model, x, y, self.forward(x, training=False), weights)

    def gradients(self, data: tuple, rule: terms.Rule, share: float, counts: list, before: list | None, collect: bool) -> tuple:
        """The gradients of the parts so far, with this one's; its part of the loss, and of each of several; its predictions."""
        x, y, weights = data
        self._drop_gradients()
        with state.moving_averages(self.model, share):
            y_pred = self.forward(x, training=True)
            loss, values = terms.part_loss(self.model, rule, x, y, y_pred, weights, True, share, counts)
        gradients = self._gradients(self.model.optimizer.scale_loss(loss))
        with torch.no_grad():
            y_pred = _detached(y_pred)
            if not collect:
                self.model.compute_metrics(x, y, y_pred, sample_weight=weights)
            values = [value.detach() for value in values]
            gradients = gradients if before is None else _added(before, gradients)
            return gradients, loss.detach(), values, state.with_masks(y_pred) if collect else None

    def doubted(self, data: tuple, y_pred: Any, rule: terms.Rule, training: bool, share: float, counts: list) -> list:
        """What the rule has from a few samples only, of others whose predictions are there."""
        x, y, weights = data
        with torch.no_grad():
            return terms.doubted(self.model, rule, x, y, state.without_masks(y_pred, loss=True), weights, training, share, counts)

    def set_aside(self, gradients: list | None) -> bool:
        """Nothing: gradients of parts are added up, and wait where they are needed."""
        return False

    def update(self, gradients: list) -> None:
        """All weights and the optimizer's state. Where it fails, `undo` puts back what was changed."""
        updated = _tensors(self._weights() + self._listed("optimizer", lambda: self.model.optimizer.variables))
        with torch.no_grad():
            if self.lean:
                self._before = updated, [tensor.to("cpu", copy=True) for tensor in updated]
            else:
                self._before = self._update_copies.made(updated)
            self.model.optimizer.apply(gradients, self._weights())
        self._give_gradients(gradients)
        self._before = None
        if self.lean or not self.joint:
            self._update_copies.forget()

    def undo(self) -> None:
        """Puts back what a failed update has changed."""
        if self._before is not None:
            _copy(*self._before)
            self._before = None

    def finish(self, data: tuple, rows: int, losses: list, values: list[list], predictions: list | None) -> dict:
        """The metrics of the whole batch, as logs."""
        x, y, weights = data
        loss, values = terms.added(losses, values)
        with torch.no_grad():
            self.model._loss_tracker.update_state(loss, sample_weight=rows)
            for tracker, value in zip(terms.trackers(self.model), values):
                tracker.update_state(value, sample_weight=rows)
            if predictions is None:
                return self.model.get_metrics_result()
            return self.model.compute_metrics(x, y, state.without_masks(self.concatenate(predictions)), sample_weight=weights)

    # Without training.

    def test_whole(self, data: tuple) -> dict:
        return self.model.test_step(_own_weights(data))

    def test_part(self, data: tuple, rule: terms.Rule, share: float, counts: list, collect: bool) -> tuple:
        x, y, weights = data
        y_pred = self.forward(x, training=False)
        loss, values = terms.part_loss(self.model, rule, x, y, y_pred, weights, False, share, counts)
        if not collect:
            self.model.compute_metrics(x, y, y_pred, sample_weight=weights)
        return loss, values, state.with_masks(y_pred) if collect else None

    def predict(self, data: tuple) -> Any:
        return self.model.predict_step(data)

    def concatenate(self, pieces: list) -> Any:
        """Results of parts as results of the batch."""
        if len(pieces) == 1:
            return pieces[0]
        return tree.map_structure(lambda *leaves: None if leaves[0] is None else torch.cat(leaves), *pieces)

    def others(self, metrics: bool) -> list:
        """State that is neither BatchNorm's nor a seed, by its path; metrics: with those of the model's own."""
        return [(variable.path, variable.value.detach().cpu().numpy().copy()) for variable in state.others(self.model, metrics)]

    def seeds(self) -> list:
        """The states of what draws random numbers."""
        return [variable.value.detach().cpu().numpy().copy() for variable in state.seeds(self.model)]

    def set_seeds(self, values: list) -> None:
        for variable, value in zip(state.seeds(self.model), values):
            variable.assign(value)

    def forward(self, x: Any, training: bool) -> Any:
        return self.model(x, training=training) if self.model._call_has_training_arg else self.model(x)


class Copies:
    """Copies of tensors, in memory that is taken once: to take it anew in each step would cost more than to fill it."""

    def __init__(self) -> None:
        self._held: list = []

    def made(self, tensors: list) -> tuple[list, list]:
        """These tensors, and copies of them as they are now."""
        alike = len(tensors) == len(self._held) and all(
            (copy.shape, copy.dtype, copy.device) == (tensor.shape, tensor.dtype, tensor.device)
            for copy, tensor in zip(self._held, tensors)
        )
        if not alike:
            self._held = [torch.empty_like(tensor) for tensor in tensors]
        _copy(self._held, tensors)
        return tensors, self._held

    def forget(self) -> None:
        """Gives the memory back."""
        self._held = []


def _parameters(variables: list) -> list:
    """The tensors of variables. Keras's own `value` asks ten questions before it answers, and large models have thousands of them."""
    return [variable.value if variable._value is None else variable._value for variable in variables]


def _tensors(variables: list) -> list:
    return [tensor.detach() for tensor in _parameters(variables)]


def _copy(into: list, tensors: list) -> None:
    """All values at once, from the second list into the first: one kernel for each type of numbers where the device has one."""
    by_type: dict[tuple, tuple[list, list]] = {}
    for target, source in zip(into, tensors):
        targets, sources = by_type.setdefault((target.dtype, target.device, source.device), ([], []))
        targets.append(target)
        sources.append(source)
    with torch.no_grad():
        for targets, sources in by_type.values():
            torch._foreach_copy_(targets, sources)


def _added(before: list, gradients: list) -> list:
    """The sums, in place, so that it cannot fail half-way for want of memory. A weight that a part does not use has no gradient there."""
    both = [(old, new) for old, new in zip(before, gradients) if old is not None and new is not None]
    if both:
        torch._foreach_add_(*map(list, zip(*both)))
    return [new if old is None else old for old, new in zip(before, gradients)]


def _own_weights(data: tuple) -> tuple:
    """Keras multiplies sample weights by a mask in place: a second attempt would see other weights."""
    x, y, weights = data
    return x, y, tree.map_structure(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, weights)


def _detached(y_pred: Any) -> Any:
    """Predictions without what their gradients would need; the masks stay."""
    from keras.src import backend

    def detached(leaf: Any) -> Any:
        result, mask = leaf.detach(), backend.get_keras_mask(leaf)
        if mask is not None:
            backend.set_keras_mask(result, mask)
        return result

    return tree.map_structure(detached, y_pred)
