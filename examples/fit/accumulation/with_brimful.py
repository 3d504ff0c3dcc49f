"""A loop of one's own that accumulates gradients: four batches of 128 images make one update."""

import brimful.keras
import keras
import numpy as np

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

train_step = brimful.keras.Step(model, loss_of, optimizer)

window = accumulation_steps * batch
losses = [train_step(images[begin : begin + window], labels[begin : begin + window]) for begin in range(0, len(images), window)]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
