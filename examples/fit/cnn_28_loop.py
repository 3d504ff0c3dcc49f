"""A training loop of one's own: a small convolutional network on 28 x 28 images with batches of 256.

    python cnn_28_loop.py              `train_step` keeps the activations of the whole batch for its gradients
    python cnn_28_loop.py --brimful    `step` keeps those of one part at a time: the same gradients

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
parser.add_argument("--float64", action="store_true", help="train in double precision")
parser.add_argument("--result", type=Path, help="write the losses and the number of updates to this JSON file")
parser.add_argument("--weights", help="write the final weights to this .npz file")
args = parser.parse_args()

keras.config.set_floatx("float64" if args.float64 else "float32")
keras.utils.set_random_seed(6)
images = np.random.rand(1_000, 28, 28, 3).astype(keras.config.floatx())
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

losses = [float(step(x, y)) for x, y in dataset.repeat(2)]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")

if args.result:
    args.result.write_text(json.dumps({"losses": losses, "updates": int(optimizer.iterations)}))
if args.weights:
    np.savez(args.weights, *model.get_weights())
