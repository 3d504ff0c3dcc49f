"""A small dense network that takes all of its 65,536 rows as one batch."""

import keras
import numpy as np

keras.utils.set_random_seed(2)
data = np.random.rand(65_536, 1_000).astype("float32")
labels = np.random.randint(0, 2, 65_536)

model = keras.Sequential(
    [
        keras.Input((1_000,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy")

model.fit(data, labels, batch_size=65_536, epochs=2, shuffle=False)
