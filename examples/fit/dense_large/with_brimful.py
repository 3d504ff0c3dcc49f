"""A larger dense network on batches of 32,768 rows."""

import brimful.keras
import keras
import numpy as np

keras.utils.set_random_seed(3)
data = np.random.rand(32_768, 1_000).astype("float32")
labels = np.random.randint(0, 2, 32_768)

model = keras.Sequential(
    [
        keras.Input((1_000,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy")

brimful.keras.fit(model, data, labels, batch_size=32_768, epochs=2, shuffle=False)
