"""The same batches as TensorFlow's, read ahead by bytes instead of by count."""

import sys

import brimful.data
import tensorflow as tf

total = 0.0
for batch in brimful.data.open(f"{sys.argv[1]}/rows.npy").batches(256, memory="64MiB", to="tensorflow"):
    total += float(tf.reduce_sum(batch))
print(f"sum {total:.3f}")
