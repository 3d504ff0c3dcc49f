"""Trains on 100,000 rows of 1,000 numbers and their labels, 1,024 at a time."""

import sys

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
with np.load(f"{sys.argv[1]}/rows.npz") as loaded:
    x, y = loaded["x"], loaded["y"]
batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(1024)

layers = [keras.layers.Dense(128, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
model = keras.Sequential([keras.layers.Input((1_000,)), *layers])
model.compile(optimizer="adam", loss="binary_crossentropy")
history = model.fit(batches, epochs=2, verbose=0)
print(f"loss {history.history['loss'][-1]:.4f}")
