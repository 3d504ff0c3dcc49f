"""Small Keras models for the end-to-end tests, each with the job that is run on it.

Imported by the tests, which know nothing of Keras, and by the scripts, which hand `keras` to the builders.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A model and the job that trains it."""

    build: Callable[[Any], Any]
    batch: int
    optimizer: str
    loss: str
    #: The values of an input are token ids below this number; 0: they are floats.
    tokens: int = 0
    #: The number of classes of a sparse target; 0: the target has the shape of the output.
    classes: int = 0


def dense(keras):
    """Weights and the optimizer's state outweigh the activations."""
    L = keras.layers
    layers = [
        L.Input((784,)),
        L.Dense(1024, activation="relu"),
        L.Dense(1024, activation="tanh"),
        L.Dropout(0.2),
    ]
    return keras.Sequential([*layers, L.Dense(10, activation="softmax")])


def half_precision(keras):
    """Products of 16 bits, which a CPU computes in 32: with copies of both factors and of the result."""
    L = keras.layers
    layers = [L.Dense(1024, activation="relu", dtype="mixed_float16") for _ in range(3)]
    return keras.Sequential([L.Input((512,)), *layers, L.Dense(10, activation="softmax")])


def convolutions(keras):
    """Convolutions and pooling: activations outweigh the weights."""
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((64, 64, 3)),
            L.Conv2D(32, 3, padding="same", activation="relu"),
            L.Conv2D(32, 3, padding="same", activation="relu"),
            L.MaxPooling2D(),
            L.Conv2D(64, 3, activation="relu"),
            L.MaxPooling2D(),
            L.Flatten(),
            L.Dense(64, activation="relu"),
            L.Dense(10, activation="softmax"),
        ]
    )


def residual(keras):
    """A functional graph with batch normalization and a shortcut."""
    L = keras.layers
    inputs = keras.Input((48, 48, 3))
    x = L.Conv2D(32, 3, padding="same", use_bias=False)(inputs)
    for _ in range(2):
        y = L.BatchNormalization()(x)
        y = L.ReLU()(y)
        y = L.Conv2D(32, 3, padding="same", use_bias=False)(y)
        x = L.Add()([x, y])
    x = L.GlobalAveragePooling2D()(L.BatchNormalization()(x))
    return keras.Model(inputs, L.Dense(20, activation="softmax")(x))


def lstm(keras):
    """A loop over time steps that keeps what each of them computed."""
    L = keras.layers
    return keras.Sequential([L.Input((60,)), L.Embedding(2000, 64), L.LSTM(128), L.Dense(5, activation="softmax")])


def attention(keras):
    """One block of a transformer that rebuilds its input."""
    L = keras.layers
    inputs = keras.Input((96, 64))
    y = L.LayerNormalization()(inputs)
    x = L.Add()([inputs, L.MultiHeadAttention(4, 16)(y, y)])
    y = L.Dense(256, activation="gelu")(L.LayerNormalization()(x))
    return keras.Model(inputs, L.Add()([x, L.Dense(64)(y)]))


def bag_of_words(keras):
    """A table that outweighs everything else, and of which a batch touches a few rows."""
    L = keras.layers
    table = [L.Embedding(50_000, 64), L.GlobalAveragePooling1D()]
    return keras.Sequential([L.Input((40,)), *table, L.Dense(16, activation="relu"), L.Dense(5, activation="softmax")])


SPARSE = "sparse_categorical_crossentropy"

CASES = {
    "dense": Case(dense, 1024, "adam", SPARSE, classes=10),
    "half_precision": Case(half_precision, 2048, "sgd", SPARSE, classes=10),
    "convolutions": Case(convolutions, 64, "sgd", SPARSE, classes=10),
    "residual": Case(residual, 32, "adam", SPARSE, classes=20),
    "lstm": Case(lstm, 128, "rmsprop", SPARSE, tokens=2000, classes=5),
    "rows_adagrad": Case(bag_of_words, 64, "adagrad", SPARSE, tokens=50_000, classes=5),
    "rows_adamax": Case(bag_of_words, 64, "adamax", SPARSE, tokens=50_000, classes=5),
    "attention": Case(attention, 64, "adam", "mean_squared_error"),
}
