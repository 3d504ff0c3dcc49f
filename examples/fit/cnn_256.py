"""A convolutional network on 256 x 256 images with a batch of 128: its first activations are larger than a GiB.

    python cnn_256.py              a step keeps the activations of 128 images for its gradients
    python cnn_256.py --brimful    a step keeps those of one part at a time: the same gradients

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

keras.utils.set_random_seed(4)
images = np.random.rand(160, 256, 256, 3).astype("float32")
labels = np.random.randint(0, 2, 160)
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(128)

model = keras.Sequential(
    [
        keras.Input((256, 256, 3)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

if args.brimful:
    import brimful.keras

    history = brimful.keras.fit(model, dataset, epochs=1)
else:
    history = model.fit(dataset, epochs=1)

if args.result:
    args.result.write_text(json.dumps({"losses": history.history["loss"], "updates": int(model.optimizer.iterations)}))
if args.weights:
    np.savez(args.weights, *model.get_weights())
