"""Lets tf.data put a batch together: tf_data_batch.py ROWS, of a mebibyte each."""

import sys

import tensorflow as tf

rows = tf.data.Dataset.range(4096).map(lambda row: tf.fill((512, 512), tf.cast(row, tf.float32)))
for batch in rows.batch(int(sys.argv[1])):
    print(batch.shape)
