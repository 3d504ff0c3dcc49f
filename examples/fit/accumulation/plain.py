"""A loop of one's own that accumulates gradients: four batches of 128 images make one update."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(9)
images = np.random.rand(2_048, 32, 32, 3).astype("float32")
labels = np.random.randint(0, 10, 2_048).astype("int32")
accumulation_steps, batch = 4, 128

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = keras.optimizers.Adam(0.001)
loss_of = keras.losses.SparseCategoricalCrossentropy()


@tf.function
def gradients_of(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True)) / accumulation_steps
    return loss, tape.gradient(loss, model.trainable_variables)


def train_step(images, labels):
    """One update from `accumulation_steps` batches: the mean of their losses and of their gradients."""
    loss, sums = 0.0, None
    for begin in range(0, len(images), batch):
        part, gradients = gradients_of(images[begin : begin + batch], labels[begin : begin + batch])
        loss += float(part)
        sums = gradients if sums is None else [a + b for a, b in zip(sums, gradients)]
    optimizer.apply_gradients(zip(sums, model.trainable_variables))
    return loss


window = accumulation_steps * batch
losses = [train_step(images[begin : begin + window], labels[begin : begin + window]) for begin in range(0, len(images), window)]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
