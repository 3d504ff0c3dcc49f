"""A convolutional network on images of 256 × 256, 128 at a time."""

import brimful.keras
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(4)
images = np.random.rand(160, 256, 256, 3).astype("float32")
labels = np.random.randint(0, 2, 160)
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(128)

model = keras.Sequential(
    [
        keras.Input((256, 256, 3)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

brimful.keras.fit(model, dataset, epochs=1)
