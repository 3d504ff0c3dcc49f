"""Trains a small LSTM on long sequences: tf_lstm.py BATCH."""

import sys

import keras
import numpy as np

batch = int(sys.argv[1])
model = keras.Sequential(
    [
        keras.layers.Input((200,)),
        keras.layers.Embedding(1000, 64),
        keras.layers.LSTM(128),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy")
x = np.random.randint(0, 1000, (batch * 2, 200))
y = np.random.randint(0, 2, batch * 2)
model.fit(x, y, batch_size=batch, epochs=1, verbose=2)
