import brimful  # noqa: F401 (the page uses it)
import keras
import numpy as np

x, y = np.random.rand(256, 8), np.random.rand(256, 1)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
