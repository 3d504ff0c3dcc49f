"""The same layers on samples and on parts of samples that were folded into the batch, as windows of pictures and roads of a town are.

`folded_X` at some batch computes what `unfolded_X` does at six times that batch.
"""

import keras
from keras import layers as L
from keras import ops

from .registry import fixture

PARTS, STEPS, WIDTH = 6, 12, 16

LAYERS = {
    "lstm": lambda x: L.LSTM(32, return_sequences=True)(x),
    "gru": lambda x: L.GRU(32, reset_after=False)(x),
    "dropped_lstm": lambda x: L.LSTM(32, dropout=0.1, recurrent_dropout=0.1)(x),
    "heads": lambda x: L.MultiHeadAttention(4, 8)(x, x),
    "dropped_heads": lambda x: L.MultiHeadAttention(4, 8, dropout=0.1)(x, x),
    "sums": lambda x: L.AdditiveAttention()([x, x]),
    "groups": lambda x: L.GroupNormalization(4)(x),
}


def _registered(name, layer):
    def folded():
        inputs = keras.Input((PARTS, STEPS, WIDTH))
        return keras.Model(inputs, layer(L.Dense(WIDTH)(ops.reshape(inputs, (-1, STEPS, WIDTH)))))

    def unfolded():
        inputs = keras.Input((STEPS, WIDTH))
        return keras.Model(inputs, layer(L.Dense(WIDTH)(inputs)))

    for make in (folded, unfolded):
        make.__name__ = f"{make.__name__}_{name}"
        fixture(make)


for _name, _layer in LAYERS.items():
    _registered(_name, _layer)
