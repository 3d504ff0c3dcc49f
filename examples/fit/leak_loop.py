"""A training loop of one's own that keeps the activations of every step: memory runs out after many steps.

    python leak_loop.py              each step's activations stay in a list until the end
    python leak_loop.py --brimful    `step` gives the loss as a plain number: nothing else outlives a step

Brimful cannot free what a program still holds. Here the list held the activations only because they were what
the step returned.
"""

import argparse
import json
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--brimful", action="store_true", help="train inside the memory that there is")
parser.add_argument("--batch", type=int, default=4_096, help="rows of a step: each leaks 40 bytes")
parser.add_argument("--steps", type=int, default=400, help="steps to take")
parser.add_argument("--result", type=Path, help="write the losses and the number of updates to this JSON file")
parser.add_argument("--weights", help="write the final weights to this .npz file")
args = parser.parse_args()

keras.utils.set_random_seed(8)
inputs = np.random.rand(8 * args.batch, 10).astype("float32")
labels = np.random.randint(0, 10, 8 * args.batch).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(args.batch).repeat().take(args.steps)

model = keras.Sequential(
    [
        keras.Input((10,)),
        keras.layers.Dense(100, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = keras.optimizers.Adam(0.001)
loss_of = keras.losses.SparseCategoricalCrossentropy()


@tf.function
def leaky_train_step(inputs, labels):
    with tf.GradientTape() as tape:
        activations = model(inputs, training=True)
        loss = loss_of(labels, activations)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss, activations


if args.brimful:
    import brimful.keras

    step = brimful.keras.Step(model, loss_of, optimizer)
    losses = [step(x, y) for x, y in dataset]
else:
    kept = [leaky_train_step(x, y) for x, y in dataset]
    losses = [float(loss) for loss, activations in kept]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")

if args.result:
    args.result.write_text(json.dumps({"losses": losses, "updates": int(optimizer.iterations)}))
if args.weights:
    np.savez(args.weights, *model.get_weights())
