"""Weights and gradients fit, Adam's moments do not: tf_adam_slots.py [--different-shapes].

Layers of one shape share their moments, which are all zero, until the first update copies them: it fails in the update. Layers of different
shapes fail where the moments are made.
"""

import sys

import keras
import numpy as np

widths = [2048, 2032, 2016, 2000] if "--different-shapes" in sys.argv else [2048] * 4
model = keras.Sequential([keras.layers.Input((2048,))] + [keras.layers.Dense(width) for width in widths])
model.compile(optimizer=keras.optimizers.Adam(1e-4), loss="mse")
x = np.zeros((4, 2048), "float32")
print("forward:", model.predict(x, verbose=0).shape)
model.fit(x, np.zeros((4, widths[-1]), "float32"), batch_size=2, epochs=1, verbose=2)
