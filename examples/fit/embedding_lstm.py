"""An embedding of 20,000 words and an LSTM: the optimizer's state and the saved time steps share the memory.

    python embedding_lstm.py              a step keeps 128 time steps of the whole batch for its gradients
    python embedding_lstm.py --brimful    a step keeps those of one part at a time: the same gradients

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
keras.utils.set_random_seed(5)
texts = np.random.randint(0, 20_000, (1_000, 128))
labels = np.random.randint(0, 2, 1_000)
dataset = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(500)

model = keras.Sequential(
    [
        keras.Input((128,)),
        keras.layers.Embedding(20_000, 256),
        keras.layers.LSTM(64),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

if args.brimful:
    import brimful.keras

    history = brimful.keras.fit(model, dataset, epochs=2)
else:
    history = model.fit(dataset, epochs=2)

if args.result:
    args.result.write_text(json.dumps({"losses": history.history["loss"], "updates": int(model.optimizer.iterations)}))
if args.weights:
    np.savez(args.weights, *model.get_weights())
