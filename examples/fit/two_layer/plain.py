"""A two-layer network on 100,000 rows of 1,000 numbers."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
data = np.random.rand(100_000, 1_000)
labels = np.random.randint(0, 2, 100_000)

model = keras.Sequential(
    [
        keras.Input((1_000,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

dataset = tf.data.Dataset.from_tensor_slices((data, labels)).batch(1024)
model.fit(dataset, epochs=1)
