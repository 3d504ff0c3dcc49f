"""A loop of one's own: a larger convolutional network on images of 64 × 64, 64 at a time."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(7)
images = np.random.rand(256, 64, 64, 3).astype("float32")
labels = np.random.randint(0, 10, 256).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(64)

model = keras.Sequential(
    [
        keras.Input((64, 64, 3)),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(128, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = keras.optimizers.Adam(0.001)
loss_of = keras.losses.SparseCategoricalCrossentropy()


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


losses = [float(train_step(x, y)) for x, y in dataset]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
