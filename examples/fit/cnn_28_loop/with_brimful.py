"""A loop of one's own: a small convolutional network on images of 28 × 28, 256 at a time."""

import brimful.keras
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(6)
images = np.random.rand(1_000, 28, 28, 3).astype("float32")
labels = np.random.randint(0, 10, 1_000).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(256)

model = keras.Sequential(
    [
        keras.Input((28, 28, 3)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = keras.optimizers.Adam(0.001)
loss_of = keras.losses.SparseCategoricalCrossentropy()

train_step = brimful.keras.Step(model, loss_of, optimizer)

losses = [float(train_step(x, y)) for x, y in dataset.repeat(2)]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
