"""Writes vision_cnn.json: an image classifier of the kind that runs out of memory on a free notebook.

Needs Keras 3 with any backend:  python examples/vision_cnn.py
"""

from pathlib import Path

import keras
from keras import layers


def build() -> keras.Model:
    """Three pairs of convolutions on 512×512 images, then a dense head that holds most of the weights."""
    inputs = keras.Input((512, 512, 3), name="image")
    x = inputs
    for block, filters in enumerate([64, 128, 256], start=1):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"block{block}_conv1")(x)
        x = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"block{block}_conv2")(x)
        x = layers.MaxPooling2D(name=f"block{block}_pool")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(256, activation="relu", name="dense")(x)
    outputs = layers.Dense(10, activation="softmax", name="classes")(x)
    return keras.Model(inputs, outputs, name="vision_cnn")


if __name__ == "__main__":
    path = Path(__file__).with_suffix(".json")
    path.write_text(build().to_json(indent=1) + "\n")
