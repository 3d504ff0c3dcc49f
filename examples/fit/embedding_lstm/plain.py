"""An embedding of 20,000 words and an LSTM over texts of 128, 500 at a time."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(5)
texts = np.random.randint(0, 20_000, (1_000, 128))
labels = np.random.randint(0, 2, 1_000)
dataset = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(500)

model = keras.Sequential(
    [
        keras.Input((128,)),
        keras.layers.Embedding(20_000, 256),
        keras.layers.LSTM(64),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

model.fit(dataset, epochs=2)
