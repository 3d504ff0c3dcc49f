"""Trains a model twice, once while memory is taken away at random moments, and compares everything. One backend of Keras, one process.

In: a description as JSON. Out: one line of JSON: what failed, where, and the largest difference of each kind of state.
"""

import concurrent.futures
import contextlib
import json
import random
import sys
import threading
import types

import brimful.keras
import keras
import memory_hog as hog
import numpy as np
from brimful.fitting import failure, sizing
from brimful.keras import api, job, planning, state
from keras import layers

BACKEND = keras.backend.backend()
WIDTH, INPUTS, OUTPUTS, BATCH = json.loads(sys.argv[1]).get("shape", [8192, 64, 64, 96])
#: Of the table of an embedding.
TOKENS = 2048
#: So much of what a framework said is kept: of steps that were begun on one that failed, JAX puts each one's words before the cause.
MESSAGE_CHARS = 1000
#: Whole batches on JAX from one copy of the state to the next.
LAP_STEPS = 3


class Started(concurrent.futures.ThreadPoolExecutor):
    """All its threads are there from the beginning. Keras calls callbacks in threads that it starts as one is missed, and the stack of
    one that is started while the memory is taken would be refused, to Keras and not to the step that the memory was taken from."""

    def __init__(self):
        super().__init__()
        all_there = threading.Barrier(self._max_workers)
        concurrent.futures.wait([self.submit(all_there.wait) for _ in range(self._max_workers)])


class Moments:
    """When memory is taken next, and what came of it."""

    def __init__(self, rest_bytes, stays=()):
        self.rest_bytes = rest_bytes
        #: Steps that have no more than that from their beginning to their end.
        self.stays = set(stays)
        self.blocks = json.loads(sys.argv[1]).get("blocks", False)
        self.joint = json.loads(sys.argv[1]).get("joint", False)
        #: Keras does not wait for a step; so many whole ones are even begun before the first of them is done.
        self.ahead = json.loads(sys.argv[1]).get("ahead", 0)
        self.plan = {}
        self.step = 0
        self.armed = None
        self.used = None
        self.failures = []
        #: How many steps before one that failed were taken again.
        self.before = []
        self.said = []
        self.reached = []
        self.sizes = []
        #: What the pool held before each attempt that failed, and after it.
        self.back = []

    def begin_step(self):
        """A new batch: what is to happen in it."""
        self.step += 1
        self.armed = self.plan.get(self.step)

    def reach(self, moment):
        """Called from inside the step."""
        if self.armed is None or self.armed[0] != moment:
            return
        if self.armed[1] > 0:
            self.armed = (moment, self.armed[1] - 1)
            return
        self.armed = None
        self.reached.append((self.step, moment))
        # What a step before did not miss.
        hog.give_back()
        hog.settle()
        hog.take(self.rest_bytes)


MOMENTS = None


def reach(moment):
    if MOMENTS is not None:
        MOMENTS.reach(moment)


if BACKEND == "tensorflow":
    import tensorflow as tf
    from brimful.keras.backends import tensorflow_blocks

    IN_BLOCKS = tensorflow_blocks._in_blocks

    def _inside(moment, after=()):
        """An operation of the graph that takes the memory."""
        with tf.control_dependencies(list(after)):
            return tf.py_function(lambda: reach(moment), [], [])

    @tf.custom_gradient
    def gate(x):
        with tf.control_dependencies([_inside("forward", [x])]):
            y = tf.identity(x)

        def backward(dy):
            with tf.control_dependencies([_inside("backward", [dy])]):
                return tf.identity(dy)

        return y, backward

    class Adam(keras.optimizers.Adam):
        """Takes the memory when the first three of its variables have their new values."""

        def update_step(self, gradient, variable, learning_rate):
            index = self._get_variable_index(variable)
            first = getattr(self, "_first", None) if index else []
            self._first = first = first or []
            if index == 3:
                self._gate = _inside("optimizer", [done.value for done in first])
            if index >= 3:
                with tf.control_dependencies([self._gate]):
                    return super().update_step(gradient, variable, learning_rate)
            super().update_step(gradient, variable, learning_rate)
            first.append(variable)

elif BACKEND == "torch":
    import torch

    class _Gate(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            reach("forward")
            return x.view_as(x)

        @staticmethod
        def backward(context, dy):
            reach("backward")
            return dy

    gate = _Gate.apply

    def Adam(*args, **kwargs):
        """Keras's own for PyTorch: it changes its slots in place before it needs memory. The average of the weights is taken after them."""
        optimizer = keras.optimizers.Adam(*args, **kwargs)
        update = optimizer._parallel_update_step

        def parallel(*given):
            reach("optimizer")
            update(*given)
            reach("average")

        optimizer._parallel_update_step = parallel
        return optimizer

else:
    import jax
    from brimful.keras.backends import jax_ahead

    AHEAD_STEP = jax_ahead.Ahead.step
    Adam = keras.optimizers.Adam

    def gate(x):
        return x


@keras.saving.register_keras_serializable("recovery")
class Gate(layers.Layer):
    """Lets everything through; in training it is where memory may be taken, forward and backward."""

    def call(self, x, training=False):
        return gate(x) if training is True and not isinstance(x, keras.KerasTensor) else x


@keras.saving.register_keras_serializable("recovery")
class Noise(layers.Layer):
    """Draws from Keras's shared generator, which is nobody's variable."""

    def call(self, x, training=False):
        return x + keras.random.normal(keras.ops.shape(x), stddev=0.01) if training else x


def embedding():
    """Tokens, whose gradients are rows: three for each that the table has, and the table is larger than what is updated at once."""
    inside = [layers.Embedding(TOKENS, WIDTH), Gate(), layers.Dense(2 * WIDTH, activation="tanh"), layers.GlobalAveragePooling1D()]
    model = keras.Sequential([layers.Input((INPUTS,), dtype="int32"), *inside, layers.Dense(OUTPUTS)])
    model.compile(keras.optimizers.Adam(1e-3), "mse", jit_compile=False)
    return model


def build(given):
    with planning.tensorflow_left_alone():
        keras.utils.set_random_seed(11)
    if given.get("tokens"):
        return embedding()
    # A bias before BatchNorm has no gradient but rounding, which Adam would blow up.
    inside = [layers.Dense(WIDTH, use_bias=False)]
    if not given.get("plain"):
        inside += [layers.BatchNormalization()]
    # Smooth, where parts round differently from the whole: what is nearly zero must not matter.
    inside += [Gate(), layers.Activation("tanh" if given.get("plain") else "relu")]
    if not given.get("plain"):
        inside += [layers.Dropout(0.3)]
        # JAX cannot draw from the shared generator inside a step.
        inside += [Noise()] if BACKEND != "jax" else []
    model = keras.Sequential([layers.Input((INPUTS,)), *inside, layers.Dense(OUTPUTS)])
    if given.get("blocks"):
        tensorflow_blocks._in_blocks = _failing("optimizer", IN_BLOCKS)
        optimizer = keras.optimizers.Adam(1e-3, global_clipnorm=1.0)
    else:
        optimizer = Adam(1e-3, use_ema=True, ema_overwrite_frequency=7, global_clipnorm=1.0, weight_decay=1e-4)
    if given.get("scaled"):
        optimizer = keras.optimizers.LossScaleOptimizer(Adam(1e-3), initial_scale=2.0**10, dynamic_growth_steps=5)
    model.compile(optimizer, "mse", metrics=["mae", keras.metrics.RootMeanSquaredError(name="root")], jit_compile=BACKEND == "jax")
    return model


def data(steps):
    random_numbers = np.random.default_rng(5)
    rows = BATCH * steps
    if json.loads(sys.argv[1]).get("tokens"):
        return random_numbers.integers(0, TOKENS, (rows, INPUTS)), random_numbers.standard_normal((rows, OUTPUTS), "float32")
    return random_numbers.standard_normal((rows, INPUTS), "float32"), random_numbers.standard_normal((rows, OUTPUTS), "float32")


def refilled(x, y):
    """The same batches again and again, each in the same two arrays: whoever needs a batch later has to copy it."""
    batch = x[:BATCH].copy(), y[:BATCH].copy()
    while True:
        for begin in range(0, len(x), BATCH):
            for array, rows in zip(batch, (x, y)):
                array[:] = rows[begin : begin + BATCH]
            yield batch


def state_of(model, history):
    """Everything that training changes."""
    numbers = {
        "weights": model.trainable_variables,
        "seeds": state.seeds(model),
        "moving averages": [each for each in model.non_trainable_variables if not any(each is seed for seed in state.seeds(model))],
        "optimizer": model.optimizer.variables,
        "metrics": model.metrics_variables,
    }
    found = {name: [np.asarray(keras.ops.convert_to_numpy(value)) for value in values] for name, values in numbers.items()}
    found["logs"] = [np.asarray(values) for _, values in sorted(history.history.items())]
    if BACKEND == "torch":
        found["random state"] = [torch.get_rng_state().numpy()]
    if BACKEND != "jax":
        from keras.src.random.seed_generator import global_seed_generator

        found["shared generator"] = [keras.ops.convert_to_numpy(global_seed_generator().state.value)]
    return found


def copied_bytes(model):
    """What it takes to read the largest weight once: nothing, unless TensorFlow was left to copy it at each read."""
    if not hog.BFC:
        return None
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = hog.used_bytes()
    max(model.trainable_variables, key=lambda variable: variable.value.shape.num_elements()).value.read_value()
    return tf.config.experimental.get_memory_info("CPU:0")["peak"] - before


def difference(left, right):
    """The largest difference, relative to the largest number of its tensor, by kind of state."""

    def one(a, b):
        assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape)
        a, b = a.astype("float64"), b.astype("float64")
        return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30)) if a.size else 0.0

    assert left.keys() == right.keys()
    return {name: max(map(one, left[name], right[name]), default=0.0) for name in left}


def wrap(made):
    """Listens to a job: where steps begin, what failed, and whether the memory is back when an attempt was given up."""
    backend = made.backend
    train, release, keep, update, failed = made.train, backend.release, backend.keep, backend.update, made._failed

    def trained(batch):
        if not MOMENTS.ahead:
            MOMENTS.begin_step()
        if MOMENTS.step in MOMENTS.stays:
            hog.settle()
            hog.take(MOMENTS.rest_bytes)
        # As after two failures of an update: in blocks where the optimizer allows it.
        backend.lean = backend.lean or MOMENTS.blocks
        backend.join(1 if MOMENTS.joint else 0)
        try:
            return train(batch)
        finally:
            hog.give_back()
            MOMENTS.lean = backend.lean
            MOMENTS.sizes.append(made.kinds["train"].size.size)

    def kept():
        MOMENTS.used = hog.used_bytes()
        reach("keep")
        return keep()

    def updated(gradients):
        MOMENTS.used = hog.used_bytes()
        return update(gradients)

    def released():
        # Not earlier: what was changed has been put back by now, without a byte to spare.
        if MOMENTS.step not in MOMENTS.stays:
            hog.give_back()
        release()

    def recovered(kind, batch, rows, progress, said):
        MOMENTS.failures.append((MOMENTS.step, progress.trying, progress.done, said[:MESSAGE_CHARS]))
        try:
            failed(kind, batch, rows, progress, said)
        finally:
            if hog.BFC:
                MOMENTS.back.append((MOMENTS.used, hog.used_bytes()))

    made.train, made._failed = trained, recovered
    backend.release, backend.keep = released, kept
    # Before the graph of the update; in blocks it fails inside.
    backend.update = _failing("before the optimizer", updated)
    for name in ("set_seeds", "finish", *(("gradients", "whole") if BACKEND == "jax" else ())):
        setattr(backend, name, _failing(name, getattr(backend, name)))
    if BACKEND == "jax":
        backend.update = _failing("optimizer", backend.update)
        backend.begin = _after_the_last(_failing("begun", backend.begin), lambda made, values, *_: values.values())
        backend.go_on = _after_the_last(_failing("begun", backend.go_on), lambda values, _: values)
    if MOMENTS.ahead:
        wrap_ahead(made, backend)


def wrap_ahead(made, backend):
    """The same for steps that are begun ahead: after a failure they are begun ahead again, which they are not otherwise."""
    begin, again, forget = AHEAD_STEP, made.begins_again, failure.forget

    def begun(ahead, values, iterator):
        MOMENTS.begin_step()
        if "train" in made.kinds:
            backend.joint, backend.runs_ahead = MOMENTS.joint, MOMENTS.ahead if MOMENTS.joint else 0
            backend.lap_steps = LAP_STEPS if MOMENTS.joint else 0
            backend.promises = True
            made.kinds["train"].failures = 0
        return begin(ahead, values, iterator)

    def forgotten(error):
        said = forget(error)
        MOMENTS.said.append(said)
        return said

    def recovered(before, interrupted):
        MOMENTS.failures.append((MOMENTS.step, made.kinds["train"].size.size, 0, MOMENTS.said[-1][:MESSAGE_CHARS]))
        MOMENTS.before.append(before)
        again(before, interrupted)

    jax_ahead.Ahead.step, made.begins_again = begun, recovered
    jax_ahead.failure = types.SimpleNamespace(is_out_of_memory=failure.is_out_of_memory, forget=forgotten)


def _after_the_last(begin, state):
    """When memory is taken away, no step runs any longer that would still give some back. state: what the last one leaves."""

    def called(*args):
        if MOMENTS.armed is not None:
            with contextlib.suppress(jax.errors.JaxRuntimeError):
                jax.block_until_ready([list(each) for each in state(*args)])
        return begin(*args)

    return called


def _failing(name, function):
    def called(*args):
        moment = {"gradients": "forward", "whole": "forward"}.get(name, name)
        reach(moment)
        return function(*args)

    return called


def main():
    global MOMENTS
    given = json.loads(sys.argv[1])
    steps, epochs = given["steps"], given.get("epochs", 2)
    if given.get("stays"):
        # Larger sizes are tried again soon.
        sizing.PATIENCE_STEPS, sizing.PATIENCE_FACTOR = 2, 1
    else:
        sizing.PATIENCE_STEPS, sizing.MicroBatch._measured = 1 << 30, lambda *_: None
    job.PAUSES_SECONDS = (0.0, 0.0, 0.0)
    concurrent.futures.ThreadPoolExecutor = Started
    x, y = data(steps)

    def run(size):
        planning.propose = lambda *args, **kwargs: planning.Proposal(size)
        model = build(given)
        made = api.job_of(model, "auto", "exact")
        wrap(made)
        made._identity = lambda: made._made_for
        batches = {"x": refilled(x, y), "steps_per_epoch": steps} if given.get("refilled") else {"x": x, "y": y, "batch_size": BATCH}
        history = brimful.keras.fit(model, **batches, epochs=epochs, shuffle=False, verbose=given.get("verbose", 0))
        MOMENTS.copied = copied_bytes(model)
        return state_of(model, history), made.kinds["train"]

    if hog.BFC:
        hog.one_region()
    MOMENTS = Moments(0)
    # What leaves the parts as they are is compared with the same parts; what changes them with the whole batch.
    expected, _ = run(BATCH if given.get("stays") else given["size"])
    if not hog.BFC:
        hog.limit_address_space(given["room_mib"] << 20)
    MOMENTS = Moments(int(given["rest_mib"] * (1 << 20)), given.get("stays", ()))
    chosen = random.Random(given["seed"])
    # A step that is begun ahead gives the memory back some steps later; its program is compiled in the second step, which needs memory.
    ahead = given.get("ahead")
    possible = range(3, steps * epochs + 1, ahead + 2) if ahead else range(2, steps * epochs + 1)
    for step in sorted(chosen.sample(possible, given["failures"])):
        moment = chosen.choice(given["moments"])
        part = chosen.randrange(given["parts"]) if moment in ("forward", "backward") else 0
        # By rows the second large weight is updated when the first has its new values.
        part = chosen.randrange(2) if given.get("blocks") else part
        MOMENTS.plan[step] = (moment, part)
    found, kind = run(given["size"])
    answer = {
        "planned": len(MOMENTS.plan),
        "reached": MOMENTS.reached,
        "failures": MOMENTS.failures,
        "before": MOMENTS.before,
        "used": MOMENTS.back,
        "difference": difference(expected, found),
        "size": kind.size.size,
        "sizes": MOMENTS.sizes,
        "most_parts": kind.most_parts,
        "steps": kind.steps,
        "lean": MOMENTS.lean,
        "copied": MOMENTS.copied,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
