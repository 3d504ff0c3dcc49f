"""A small image classifier whose batch of 128 does not fit the memory that `make demo` gives it. It knows nothing of Brimful.

python train.py                       trains; the loss of each epoch goes to losses.csv
python train.py --save cnn.keras      writes the model and ends
"""

import argparse

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--save", help="write the model to this file, and do not train")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--losses", default="losses.csv", help="where the loss of each epoch goes")
args = parser.parse_args()

keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.Input((128, 128, 3)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(2, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy")

if args.save:
    model.save(args.save)
    raise SystemExit

# Noise, redder in every other picture.
labels = np.arange(256) % 2
pictures = np.random.default_rng(1).random((256, 128, 128, 3), "float32") - 0.5
pictures[labels == 1, :, :, 0] += 0.5

model.fit(pictures, labels, batch_size=128, epochs=args.epochs, verbose=2, callbacks=[keras.callbacks.CSVLogger(args.losses)])
