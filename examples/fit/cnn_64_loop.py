"""A training loop of one's own: a larger convolutional network on 64 x 64 images with batches of 64.

    python cnn_64_loop.py              `train_step` keeps the activations of the whole batch for its gradients
    python cnn_64_loop.py --brimful    `step` keeps those of one part at a time: the same gradients

Both make the same updates and end with the same weights.
"""

import argparse
import json
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--brimful", action="store_true", help="train inside the memory that there is")
parser.add_argument("--result", type=Path, help="write the losses and the number of updates to this JSON file")
parser.add_argument("--weights", help="write the final weights to this .npz file")
args = parser.parse_args()

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


if args.brimful:
    import brimful.keras

    step = brimful.keras.Step(model, loss_of, optimizer)
else:
    step = train_step

losses = [float(step(x, y)) for x, y in dataset]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")

if args.result:
    args.result.write_text(json.dumps({"losses": losses, "updates": int(optimizer.iterations)}))
if args.weights:
    np.savez(args.weights, *model.get_weights())
