"""A small dense network (64, 32, 1) with a batch so large that its inputs alone fill the memory.

    python dense_small.py              a step takes all 65,536 rows at once
    python dense_small.py --brimful    a step takes them in parts and updates the weights once: the same gradients

Both make the same updates and end with the same weights.
"""

import argparse
import json
from pathlib import Path

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--brimful", action="store_true", help="train inside the memory that there is")
parser.add_argument("--float64", action="store_true", help="train in double precision")
parser.add_argument("--result", type=Path, help="write the losses and the number of updates to this JSON file")
parser.add_argument("--weights", help="write the final weights to this .npz file")
args = parser.parse_args()

keras.config.set_floatx("float64" if args.float64 else "float32")
keras.utils.set_random_seed(2)
data = np.random.rand(65_536, 1_000).astype(keras.config.floatx())
labels = np.random.randint(0, 2, 65_536)

model = keras.Sequential(
    [
        keras.Input((1_000,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy")

if args.brimful:
    import brimful.keras

    history = brimful.keras.fit(model, data, labels, batch_size=65_536, epochs=4, shuffle=False)
else:
    history = model.fit(data, labels, batch_size=65_536, epochs=4, shuffle=False)

if args.result:
    args.result.write_text(json.dumps({"losses": history.history["loss"], "updates": int(model.optimizer.iterations)}))
if args.weights:
    np.savez(args.weights, *model.get_weights())
