"""One case of training inside a budget, in a process of its own: what does not fit, what was learnt, what goes on after a kill, parts
of a batch, steps that are not waited for, copies of the state, what is loaded, and several devices. In: the case's name and its arguments.
Out: one line of JSON.
"""

import contextlib
import json
import os
import signal
import sys

import brimful.keras
import keras
import numpy as np
from brimful.fitting import DoesNotFit
from brimful.keras import api, backends, planning
from keras import layers


def dense(width=64, inputs=16):
    with planning.tensorflow_left_alone():
        keras.utils.set_random_seed(3)
    # Random numbers need room for three times as many while they are made.
    first = "glorot_uniform" if width < 1 << 20 else "zeros"
    inside = [layers.Dense(width, activation="tanh", kernel_initializer=first), layers.Dense(4, kernel_initializer=first)]
    model = keras.Sequential([layers.Input((inputs,)), *inside])
    model.compile("adam", "mse")
    return model


def numbers(rows, inputs=16):
    random = np.random.default_rng(0)
    return random.standard_normal((rows, inputs), "float32"), random.standard_normal((rows, 4), "float32")


def raised(kind, call):
    """The words of an error that must come."""
    try:
        call()
    except kind as error:
        return str(error)
    return None


def does_not_fit(width, plan, memory="auto"):
    """One sample is too large: known to the plan before the first step, or found out by trying where there is no plan."""
    if plan == "without":
        planning.propose = lambda *args, **kwargs: planning.Proposal()
    begun = []
    seen = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: begun.append(batch))
    if plan == "images":
        # A sample whose activations alone have width times width times 128 bytes.
        inside = [layers.Conv2D(32, 3, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(4)]
        model = keras.Sequential([layers.Input((int(width), int(width), 1)), *inside])
        model.compile("adam", "mse")
        x, y = np.zeros((4, int(width), int(width), 1), "float32"), np.zeros((4, 4), "float32")
    else:
        model, (x, y) = dense(int(width)), numbers(8)
    before = model.get_weights()
    said = raised(DoesNotFit, lambda: brimful.keras.fit(model, x, y, batch_size=2, verbose=0, callbacks=[seen], memory=memory))
    same = all(np.array_equal(left, right) for left, right in zip(before, model.get_weights()))
    return {"said": said, "begun": begun, "same": same}


def learnt():
    """A batch that the plan thinks fits and that does not: the size that went well, and how often it failed before."""
    planning.propose = lambda *args, **kwargs: planning.Proposal()
    model, (x, y) = dense(8192), numbers(2 * 2048)
    brimful.keras.fit(model, x, y, batch_size=2048, verbose=2)
    kind = model.__dict__["_brimful_job"].kinds["train"]
    return {"size": kind.size.size, "failures": kind.failures, "steps": kind.steps}


def parts_on_device():
    """Parts of a batch whose arrays are on the device already, as on a GPU, against slices of it: whether all are the same."""
    model, (x, y) = dense(), numbers(10)
    backend, batch = backends.make(model), (keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(y), None)
    same = True
    for begin, end in ((0, 10), (0, 3), (3, 6), (6, 10)):
        inputs, targets, weights = backend.part(batch, begin, end)
        same &= weights is None and bool((np.asarray(inputs) == x[begin:end]).all() and (np.asarray(targets) == y[begin:end]).all())
    return {"same": same}


def run_out():
    """Raises what JAX says when there is no memory, for real: at once, and not when somebody looks at the result."""
    import jax

    jax.block_until_ready(keras.ops.zeros((1 << 50,), "uint8"))


def refused_ahead():
    """A step that runs out of memory as soon as it is begun, for real: how often one is begun like this."""
    model, (x, y) = dense(), numbers(60)
    job, begun = api.job_of(model, "auto", "exact"), []

    def begin(*args):
        begun.append(1)
        run_out()

    job.backend.promises, job.backend.begin = True, begin
    brimful.keras.fit(model, x, y, batch_size=10, verbose=0)
    kind = model.__dict__["_brimful_job"].kinds["train"]
    return {"begun": len(begun), "failures": kind.failures, "steps": kind.steps}


def listen(backend, hear):
    """Tells of each whole batch that is begun on JAX: its first weights, and whether it is given a copy of the state."""
    begin, go_on = backend.begin, backend.go_on

    def begun(job, values, data, rows, copies):
        hear(next(iter(values["trainable"])), copies)
        return begin(job, values, data, rows, copies)

    def gone_on(values, data):
        hear(next(iter(values[0])), False)
        return go_on(values, data)

    backend.begin, backend.go_on = begun, gone_on


def in_laps(data):
    """Two epochs of six steps on JAX, a copy for every four in the second: which states were given away, before which steps a copy was put
    aside, and whether all is as Keras leaves it.

    data: "short" for arrays, with laps that may not be longer; "arrays", or a "generator".
    """
    from brimful.keras.backends import jax_sizes

    (x, y), began, aside = numbers(60), [], []
    plain, model = dense(2048), dense(2048)
    backend = api.job_of(model, "auto", "exact").backend
    begin_copy = backend.begin_copy
    jax_sizes.LAP_SECONDS = 1000
    if data == "short":
        jax_sizes.LAP_MOST_STEPS = 4

    def hear(first, copies):
        backend.lap_steps = 4
        began.append((copies, first))

    def put_aside(values):
        aside.append(len(began))
        return begin_copy(values)

    listen(backend, hear)
    backend.begin_copy = put_aside
    options = {"epochs": 2, "verbose": 0, "shuffle": False}
    options |= {"batch_size": 10} if data != "generator" else {"steps_per_epoch": 6}
    held = model.trainable_variables[0].value

    def given():
        if data != "generator":
            return x, y
        return (((x[begin : begin + 10], y[begin : begin + 10]) for _ in range(2) for begin in range(0, 60, 10)),)

    logs = [train(*given(), **options).history for train in (plain.fit, lambda *args, **own: brimful.keras.fit(model, *args, **own))]
    states = [
        [keras.ops.convert_to_numpy(value).tolist() for value in (*each.variables, *each.optimizer.variables)] for each in (plain, model)
    ]
    return {
        "copied": [copies for copies, _ in began],
        "given": [array.is_deleted() for _, array in began],
        "aside": aside,
        "held": held.is_deleted(),
        "same": logs[0] == logs[1] and states[0] == states[1],
    }


def lost_copy(when):
    """The copy that a lap begins with fails for real, and then a step of that lap: how many steps were taken again, and whether all is as Keras
    leaves it.

    when: whether it fails "at once", or "late", when steps were begun that need it.
    """
    import jax
    import jax.numpy as jnp
    from brimful.keras.backends import jax_sizes

    (x, y), begun, again = numbers(80), [], []
    plain, model = dense(), dense()
    job = api.job_of(model, "auto", "exact")
    backend, begins_again = job.backend, job.begins_again

    @jax.jit
    def slowly():
        # Half a second and more: what needs this cannot fail before it is begun.
        return jax.lax.fori_loop(0, 1500, lambda _, square: square @ square, jnp.eye(256))[0, 0]

    @jax.jit
    def late(values, one):
        # So many that no machine has room to sort them.
        some = jnp.sort(jnp.arange(1 << 44, dtype="float32") * one)[3]
        return jax.tree_util.tree_map(lambda value: value + some.astype(value.dtype), values)

    def failing(values):
        if when == "at once":
            run_out()
        values = {name: [*value] for name, value in values.items()}
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            # Compiled by now, it begins at once.
            jax.block_until_ready(late(values, slowly()))
        return late(values, slowly())

    def hear(_, copies):
        begun.append(copies)
        if len(begun) == 6:
            run_out()

    def counted(before, interrupted):
        again.append(before)
        begins_again(before, interrupted)

    listen(backend, hear)
    backend.begin_copy, job.begins_again = failing, counted
    jax_sizes.laps, jax_sizes.LAP_MOST_STEPS = lambda *args: (3, 2), 3
    options = {"batch_size": 10, "verbose": 0, "shuffle": False}
    logs = [train(x, y, **options).history for train in (plain.fit, lambda *args, **own: brimful.keras.fit(model, *args, **own))]
    states = [
        [keras.ops.convert_to_numpy(value).tolist() for value in (*each.variables, *each.optimizer.variables)] for each in (plain, model)
    ]
    return {"begun": begun, "again": again, "same": logs[0] == logs[1] and states[0] == states[1]}


def drawn_again(how):
    """Batches that Keras draws from arrays, and a step that runs out of memory for real, as late as can be; each batch that is drawn again finds no
    memory, either, at first: how many batches were held, whether those that were drawn again are the same, and whether all is as Keras leaves it.

    how: "host", or "device" for batches that Keras has put there, as on a GPU; "written" for a callback that writes into the arrays.
    """
    from brimful.keras.backends.jax_drawing import Drawn
    from keras.src.backend.jax import trainer
    from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

    (x, y), weights, own = numbers(60), np.linspace(0.5, 2, 60), ArrayDataAdapter._get_iterator
    plain, model = dense(), dense()
    backend = api.job_of(model, "auto", "exact").backend
    kept, held, begun, again, batch = backend.kept, [], [], [], Drawn.batch
    if how == "device":
        trainer.JAXEpochIterator._get_iterator = lambda each: each._one_batch_ahead_iterator(each.data_adapter.get_jax_iterator())

    def remembered(data, still):
        given, source = kept(data, still)
        held.append((jax_copy(given), source))
        return given, source

    def hear(*_):
        begun.append(1)
        if len(begun) == 5:
            run_out()

    def drawn_at_last(each):
        again.append(1)
        if len(again) % 2:
            np.empty(1 << 60, "uint8")
        return batch(each)

    def trained(fit, x, **options):
        class Writes(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                x[10 * batch : 10 * batch + 10] = 1e6

        np.random.seed(7)
        callbacks = [Writes()] if how == "written" else []
        return fit(x, y, sample_weight=weights, batch_size=10, verbose=0, callbacks=callbacks, shuffle=how != "written", **options).history

    listen(backend, hear)
    backend.kept, Drawn.batch = remembered, drawn_at_last
    logs = [trained(plain.fit, x.copy()), trained(lambda *args, **given: brimful.keras.fit(model, *args, **given), x.copy())]
    states = [[keras.ops.convert_to_numpy(value).tolist() for value in each.variables] for each in (plain, model)]
    drawn = [(jax_copy(batch(source)), copy) for copy, source in held if hasattr(source, "batch")]
    return {
        "held": len(held) - len(drawn),
        "drawn": len(drawn),
        "tries": len(again),
        "alike": all(np.array_equal(left, right) for pair in drawn for left, right in zip(*pair)),
        "failures": model.__dict__["_brimful_job"].kinds["train"].failures,
        "put_back": ArrayDataAdapter._get_iterator is own,
        "same": logs[0] == logs[1] and states[0] == states[1],
    }


def read_logs():
    """A callback that is given the logs of each batch, and a step that runs out of memory: what it was told, beside Keras, and of how many steps the
    logs were sent before anybody asked for them."""
    from brimful.keras.backends.jax_ahead import Begun

    (x, y), told, sent, begun, send = numbers(60), {}, [], [], Begun.send_logs
    models = {"plain": dense(), "ours": dense()}
    backend = api.job_of(models["ours"], "auto", "exact").backend

    def hear(*_):
        begun.append(1)
        if len(begun) == 4:
            run_out()

    def counted(step):
        sent.append(1)
        send(step)

    listen(backend, hear)
    Begun.send_logs = counted
    for name, fit in (("plain", models["plain"].fit), ("ours", lambda *args, **given: brimful.keras.fit(models["ours"], *args, **given))):
        told[name] = []
        callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs, name=name: told[name].append((batch, dict(logs))))
        fit(x, y, batch_size=10, verbose=0, shuffle=False, callbacks=[callback])
    return {"sent": len(sent), "told": len(told["ours"]), "same": told["plain"] == told["ours"]}


def jax_copy(data):
    """The arrays of a batch, as they are now."""
    import jax

    return [np.array(leaf) for leaf in jax.tree_util.tree_leaves(data)]


def interrupted():
    """Ctrl-C in the middle of a lap, when the step was given its state: the steps that were taken, and whether all is as Keras leaves it."""
    (x, y), begun = numbers(60), []
    model, plain = dense(), dense()
    backend = api.job_of(model, "auto", "exact").backend

    def ended(function):
        def listened(*args):
            begun.append(1)
            result = function(*args)
            if len(begun) == 3:
                raise KeyboardInterrupt
            return result

        return listened

    backend.begin, backend.go_on = ended(backend.begin), ended(backend.go_on)
    raised(KeyboardInterrupt, lambda: brimful.keras.fit(model, x, y, batch_size=10, verbose=0, shuffle=False))
    steps = int(model.optimizer.iterations.value)
    plain.fit(x[: 10 * steps], y[: 10 * steps], batch_size=10, verbose=0, shuffle=False)
    same = all(np.array_equal(left, right) for left, right in zip(plain.get_weights(), model.get_weights()))
    return {"begun": len(begun), "steps": steps, "same": same}


def fetched(whose):
    """Batches that Keras puts on the device between steps, as on a GPU, where every third one fails for real: whether all is as Keras leaves it.

    whose: the function that fails; JAX's, or one that stands in the place of Keras's own.
    """
    import jax
    from keras.src.backend.jax import trainer

    (x, y), calls = numbers(60), []
    plain, model = dense(), dense()
    own = {"keras": trainer._distribute_data, "jax": jax.device_put}[whose]

    def failing(data, *args, **options):
        # Keras sends scalars of its own between batches.
        if isinstance(data, tuple):
            calls.append(1)
            if len(calls) % 3 == 0:
                run_out()
        return own(data, *args, **options)

    options = {"batch_size": 10, "epochs": 2, "verbose": 0, "shuffle": False}
    plain.fit(x, y, **options)
    trainer.JAXEpochIterator._get_iterator = lambda each: each._one_batch_ahead_iterator(each.data_adapter.get_jax_iterator())
    if whose == "keras":
        trainer._distribute_data = failing
    else:
        jax.device_put = failing
    before = trainer._distribute_data
    brimful.keras.fit(model, x, y, **options)
    same = all(np.array_equal(left, right) for left, right in zip(plain.get_weights(), model.get_weights()))
    return {"failed": len(calls) // 3, "put_back": trainer._distribute_data is before, "same": same}


def loaded():
    """Whether the plan was made, and TensorFlow loaded for it."""
    model, (x, y) = dense(), numbers(20)
    brimful.keras.fit(model, x, y, batch_size=10, verbose=0)
    planned = model.__dict__["_brimful_job"].kinds["train"].proposal.predicted_bytes is not None
    return {"planned": planned, "tensorflow": "tensorflow" in sys.modules}


def resume(folder, how, kill_at=0):
    """Trains with Keras's own checkpoints, and ends itself in the middle of an epoch where that is asked for."""
    model, (x, y) = dense(), numbers(60)

    def end(batch, logs):
        # The optimizer counts over all epochs, also those before a restart.
        if kill_at and int(keras.ops.convert_to_numpy(model.optimizer.iterations.value)) == int(kill_at):
            os.kill(os.getpid(), signal.SIGKILL)

    epochs = []
    callbacks = [
        keras.callbacks.BackupAndRestore(folder),
        keras.callbacks.LambdaCallback(on_train_batch_end=end, on_epoch_begin=lambda epoch, logs: epochs.append(epoch)),
    ]
    options = dict(batch_size=20, epochs=4, shuffle=False, verbose=0, callbacks=callbacks)
    parts = 1
    if how == "split":
        planning.propose = lambda *args, **kwargs: planning.Proposal(7)
        brimful.keras.fit(model, x, y, **options)
        parts = model.__dict__["_brimful_job"].kinds["train"].most_parts
    else:
        model.fit(x, y, **options)
    state = [keras.ops.convert_to_numpy(value).tolist() for value in (*model.variables, *model.optimizer.variables)]
    return {"state": state, "epochs": epochs, "parts": parts}


def replicas():
    """Two devices, in the way of each backend: refused before anything is trained."""
    backend = keras.backend.backend()
    x, y = numbers(8)
    if backend == "tensorflow":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            model = dense()
    elif backend == "jax":
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        model = dense()
    else:
        import torch

        rank = int(os.environ["RANK"])
        torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
        model = dense()
    before = model.get_weights()
    said = raised(ValueError, lambda: brimful.keras.fit(model, x, y, batch_size=4, verbose=0))
    same = all(np.array_equal(left, right) for left, right in zip(before, model.get_weights()))
    return {"said": said, "same": same}


if __name__ == "__main__":
    laps = (refused_ahead, in_laps, lost_copy, drawn_again, read_logs, interrupted, fetched)
    named = (does_not_fit, learnt, parts_on_device, *laps, loaded, resume)
    case = {**{case.__name__: case for case in named}, "replicas": lambda *path: replicas()}[sys.argv[1]]
    print(json.dumps(case(*sys.argv[2:])))
