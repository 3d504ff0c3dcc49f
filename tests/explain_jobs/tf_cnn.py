"""Trains a small convolutional network: tf_cnn.py BATCH [--evaluate BATCH] [--predict BATCH] [--optimizer NAME]."""

import argparse
import os

import keras
import numpy as np
from limits import allow_more

parser = argparse.ArgumentParser()
parser.add_argument("batch", type=int)
parser.add_argument("--evaluate", type=int)
parser.add_argument("--predict", type=int)
parser.add_argument("--optimizer", default="sgd")
args = parser.parse_args()

keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.layers.Input((32, 32, 3)),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(optimizer=args.optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
rows = max(args.batch, args.evaluate or 0, args.predict or 0)
x = np.random.rand(rows, 32, 32, 3).astype("float32")
y = np.random.randint(0, 10, rows)
if "ALLOW_MB" in os.environ:
    allow_more(int(os.environ["ALLOW_MB"]) << 20)
model.fit(x[: args.batch * 4], y[: args.batch * 4], batch_size=args.batch, epochs=2, verbose=2)
if args.evaluate:
    print("Evaluating on the whole test set")
    print(model.evaluate(x, y, batch_size=args.evaluate, verbose=2))
if args.predict:
    print(model.predict(x, batch_size=args.predict, verbose=2).shape)
