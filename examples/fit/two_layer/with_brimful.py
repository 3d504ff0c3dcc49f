"""A two-layer network on 100,000 rows of 1,000 numbers."""

import brimful.keras
import keras
import numpy as np

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

brimful.keras.fit(model, data, labels, batch_size=1024, epochs=1, shuffle=False)
