"""Sums 100,000 rows of 1,000 numbers that TensorFlow gets 256 at a time."""

import sys

import brimful.data
import tensorflow as tf

total = 0.0
for batch in brimful.data.open(f"{sys.argv[1]}/rows.npy").batches(256, memory="64MiB", to="tensorflow"):
    total += float(tf.reduce_sum(batch))
print(f"sum {total:.3f}")
