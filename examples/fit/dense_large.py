"""A large dense network (512, 256, 128, 1) with a batch whose activations fill the memory.

    python dense_large.py              a step keeps the activations of 32,768 rows for its gradients
    python dense_large.py --brimful    a step keeps those of one part at a time: the same gradients

Both make the same updates and end with the same weights.
"""

import argparse
import json
from pathlib import Path

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--brimful", action="store_true", help="train inside the memory that there is")
parser.add_argument("--result", type=Path, help="write the losses and the number of updates to this JSON file")
parser.add_argument("--weights", help="write the final weights to this .npz file")
args = parser.parse_args()

keras.utils.set_random_seed(3)
data = np.random.rand(32_768, 1_000).astype("float32")
labels = np.random.randint(0, 2, 32_768)

model = keras.Sequential(
    [
        keras.Input((1_000,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy")

if args.brimful:
    import brimful.keras

    history = brimful.keras.fit(model, data, labels, batch_size=32_768, epochs=3, shuffle=False)
else:
    history = model.fit(data, labels, batch_size=32_768, epochs=3, shuffle=False)

if args.result:
    args.result.write_text(json.dumps({"losses": history.history["loss"], "updates": int(model.optimizer.iterations)}))
if args.weights:
    np.savez(args.weights, *model.get_weights())
