"""A loop of one's own that keeps what every step returns."""

import brimful.keras
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(8)
inputs = np.random.rand(32_768, 10).astype("float32")
labels = np.random.randint(0, 10, 32_768).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(4_096).repeat().take(400)

model = keras.Sequential(
    [
        keras.Input((10,)),
        keras.layers.Dense(100, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = keras.optimizers.Adam(0.001)
loss_of = keras.losses.SparseCategoricalCrossentropy()

train_step = brimful.keras.Step(model, loss_of, optimizer)

losses = [train_step(x, y) for x, y in dataset]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
