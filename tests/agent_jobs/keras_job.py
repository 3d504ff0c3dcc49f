"""Keras's own loops on one backend, then one that fails. Prints the losses, and the numbers of files that are open."""

import os
import sys
import tempfile

import keras
import numpy as np

keras.utils.set_random_seed(0)
rows, targets = np.random.rand(100, 4).astype("float32"), np.random.rand(100, 1).astype("float32")


def model(**options):
    network = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    network.compile("adam", "mse", **options)
    return network


first = model()
history = first.fit(rows, targets, batch_size=10, epochs=3, verbose=0, validation_data=(rows, targets))
first.predict(rows, verbose=0)
first.train_on_batch(rows[:10], targets[:10])
with tempfile.TemporaryDirectory() as folder:
    first.save_weights(os.path.join(folder, "first.weights.h5"))
if keras.backend.backend() != "torch":
    # Four calls of three batches: the last has one.
    model(steps_per_execution=3).fit(rows, targets, batch_size=10, epochs=2, verbose=0)
print([round(loss, 4) for loss in history.history["loss"]], history.history.keys())


class Fails(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 4:
            raise ValueError("this batch is the last")


print([type(callback).__name__ for callback in keras.callbacks.CallbackList([Fails()], add_history=True).callbacks[:2]], file=sys.stderr)
first.fit(rows, targets, batch_size=10, verbose=0, callbacks=[Fails()])
