"""Peaks of a step whose batch begins at each of four places within 64 bytes, as JSON: where it begins is up to malloc, to within 16.

TensorFlow copies an array with NumPy before it takes it over, and takes over the copy itself if that begins at a multiple of 64.
"""

import json

import keras
import numpy as np
import tensorflow as tf

BATCH, STEPS = 1024, 4


class Placed(np.ndarray):
    """An array whose copies begin where they are told to."""

    begins = 0

    def copy(self, *_):
        whole = np.empty(self.nbytes + 64, "uint8")
        first = (Placed.begins - whole.ctypes.data) % 64
        placed = whole[first : first + self.nbytes].view(self.dtype).reshape(self.shape)
        placed[...] = self
        return placed


layers = [keras.layers.Dense(128, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
model = keras.Sequential([keras.Input((1000,)), *layers])
model.compile("adam", "binary_crossentropy", jit_compile=False)
x, y = np.random.rand(BATCH, 1000).astype("float32").view(Placed), np.random.randint(0, 2, (BATCH, 1)).astype("float32")
peaks = {}
for _ in range(STEPS):
    for Placed.begins in (0, 16, 32, 48):
        tf.config.experimental.reset_memory_stats("CPU:0")
        model.train_on_batch(x, y)
        peaks.setdefault(Placed.begins, []).append(tf.config.experimental.get_memory_info("CPU:0")["peak"])
print(json.dumps({"peaks": peaks, "model": model.to_json()}))
