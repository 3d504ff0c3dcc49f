"""Variables alone that do not fit: ten layers of 16 MiB in a pool of 100 MiB."""

import keras

model = keras.Sequential([keras.layers.Input((2048,))] + [keras.layers.Dense(2048, activation="relu") for _ in range(10)])
model.summary()
model.compile(optimizer="sgd", loss="mse")
