"""A two-layer network on 100,000 rows of 1,000 floats: the rows alone are larger than the memory.

    python two_layer.py              every row becomes part of one tensor of 800 MB
    python two_layer.py --brimful    the rows stay in NumPy and come in batch by batch: same batches, same updates

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

keras.utils.set_random_seed(1)
data = np.random.rand(100_000, 1_000)
labels = np.random.randint(0, 2, 100_000)

model = keras.Sequential(
    [
        keras.Input((1_000,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

if args.brimful:
    import brimful.keras

    history = brimful.keras.fit(model, data, labels, batch_size=1024, epochs=2, shuffle=False)
else:
    history = model.fit(tf.data.Dataset.from_tensor_slices((data, labels)).batch(1024), epochs=2)

if args.result:
    args.result.write_text(json.dumps({"losses": history.history["loss"], "updates": int(model.optimizer.iterations)}))
if args.weights:
    np.savez(args.weights, *model.get_weights())
