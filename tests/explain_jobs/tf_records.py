"""A data set that reads from more files at once than may be open."""

import os

import tensorflow as tf

paths = [os.path.join(os.environ["WORK"], f"shard_{number:03d}.tfrecord") for number in range(200)]
for path in paths:
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(10):
            writer.write(b"x" * 1000)
dataset = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, cycle_length=200)
print(sum(1 for _ in dataset), "records")
