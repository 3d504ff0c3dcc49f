"""Warnings about retracing in a run that ends well."""

import tensorflow as tf


@tf.function
def scaled(x, by):
    return tf.reduce_sum(x * by)


for step in range(8):
    print("step", step, float(scaled(tf.ones([4]), step)))
for size in (8, 16, 32, 64, 128, 256):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    print(model.predict(tf.ones([size, 3]), verbose=0).shape)
print("Training finished.")
