"""Keeps what each step returns, as TensorFlow programs do by mistake: activations of the model, one batch after the other.

tf_leak.py STEPS KEPT_BYTES       KEPT_BYTES is 0 for the same program without the mistake
"""

import sys
import time

import numpy as np
import tensorflow as tf
from truth import Truth

steps, kept_bytes = int(sys.argv[1]), int(sys.argv[2])
BATCH = 256
width = max(kept_bytes // (4 * BATCH), 16)

body = [tf.keras.layers.Dense(256, activation="relu") for _ in range(3)]
model = tf.keras.Sequential([tf.keras.Input((16,)), *body, tf.keras.layers.Dense(width, activation="relu")])
optimizer = tf.keras.optimizers.SGD(1e-3)
inputs = tf.constant(np.random.default_rng(0).random((BATCH, 16), np.float32))


@tf.function
def leaky_step(inputs):
    with tf.GradientTape() as tape:
        activations = model(inputs)
        loss = tf.reduce_mean(activations**2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
    return activations


kept, truth = [], Truth()
for number in range(1, steps + 1):
    activations = leaky_step(inputs)
    if kept_bytes:
        kept.append(activations)
    truth.step(number)
    # A step lasts some ten milliseconds, as steps do. Work would last as long, but take the cores.
    time.sleep(0.01)
truth.say()
