"""Trains a small model with Keras from a loader, from its batches as a generator, and by brimful: one line of JSON.

KERAS_BACKEND=jax python data_keras_job.py records.npy
"""

import json
import sys
import warnings

import brimful.keras
import keras
import numpy as np
from brimful import data

EPOCHS = 3


def model():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    made = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, activation="tanh")(inputs)))
    made.compile(optimizer="sgd", loss="mse")
    return made


def far(one, other):
    return max(float(abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(one.get_weights(), other.get_weights()))


def main(path):
    ds = data.open(path, columns=["a"], labels="y")

    def loader(**options):
        return ds.batches(64, **{"memory": "2MiB", "shuffle": True, "seed": 4, **options})

    plain, ours, kept, again, resumed = model(), model(), model(), model(), model()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*ran out of data.*")
        history = plain.fit(loader(), epochs=EPOCHS, verbose=0, validation_data=loader(shuffle=False)).history
        again.fit(loader().as_keras(), epochs=EPOCHS, verbose=0)
        brimful.keras.fit(ours, loader(), epochs=EPOCHS, verbose=0, memory="512MiB", validation_data=loader(shuffle=False))
    own = loader()
    copies = [tuple(array.copy() for array in batch) for _ in range(EPOCHS) for batch in own]
    kept.fit((batch for batch in copies), epochs=EPOCHS, steps_per_epoch=len(own), shuffle=False, verbose=0)
    # One epoch, a checkpoint, and the rest.
    first = loader()
    resumed.fit(first, epochs=1, verbose=0)
    second = loader()
    second.resume(json.loads(json.dumps(first.state())))
    resumed.fit(second, epochs=EPOCHS - 1, verbose=0)
    # The middle of an epoch: what is left of it, and the rest by itself.
    middle = model()
    third = loader()
    for number, batch in enumerate(third):
        middle.train_on_batch(*batch)
        if number == 4:
            break
    fourth = loader()
    fourth.resume(third.state())
    middle.fit(fourth, epochs=1, verbose=0)
    middle.fit(fourth, epochs=EPOCHS - 1, verbose=0)
    fourth.resume(third.state())
    try:
        middle_said = ""
        model().fit(fourth, epochs=2, verbose=0)
    except data.DataError as error:
        middle_said = str(error)
    x_only = data.open(path, columns=["a"]).batches(64, memory="2MiB")
    answer = {
        "loss": history["loss"],
        "validated": history["val_loss"][-1] - plain.evaluate(loader(shuffle=False), verbose=0),
        "generator": far(plain, kept),
        "as_keras": far(plain, again),
        "brimful": far(plain, ours),
        "resumed": far(plain, resumed),
        "middle": far(plain, middle),
        "middle_said": middle_said,
        "predicted": list(plain.predict(x_only, verbose=0).shape),
        "model_bytes": ours.__dict__["_brimful_job"].wanted_bytes,
        "peak_batches": loader().plan.batch_slots,
    }
    print(json.dumps(answer))


main(sys.argv[1])
