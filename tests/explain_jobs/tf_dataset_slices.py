"""The whole data set as one tensor of the pool, before a batch is made of it."""

import numpy as np
import tensorflow as tf

images = np.zeros((20000, 64, 64, 3), "uint8")
dataset = tf.data.Dataset.from_tensor_slices(tf.cast(images, tf.float32) / 255.0)
for batch in dataset.batch(8).take(1):
    print(batch.shape)
