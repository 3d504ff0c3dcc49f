"""Words of TensorFlow's own C++ libraries when the address space ends: a session's tensors under RLIMIT_AS."""

import tensorflow as tf
from limits import allow_more

tf.ones([8, 8]) @ tf.ones([8, 8])
allow_more(400 << 20)
batch = tf.random.normal([64, 224, 224, 3])
print("batch", batch.shape)
filters = tf.random.normal([7, 7, 3, 64])
print(tf.nn.conv2d(batch, filters, 1, "SAME").shape)
