"""A data set that is cached in memory, epoch after epoch of growth in the first."""

import tensorflow as tf

dataset = tf.data.Dataset.range(4000).map(lambda i: tf.fill([256, 256], tf.cast(i, tf.float32))).cache().batch(16)
seen = 0
for batch in dataset:
    seen += batch.shape[0]
    if seen % 160 == 0:
        print("examples:", seen, "pool:", tf.config.experimental.get_memory_info("CPU:0")["current"] >> 20, "MiB", flush=True)
