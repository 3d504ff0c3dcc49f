import keras
import numpy as np

x, y = np.random.rand(256, 8), np.random.rand(256, 1)
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
loss, optimizer = keras.losses.MeanSquaredError(), keras.optimizers.Adam()
