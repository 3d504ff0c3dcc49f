"""A run that ends well and complains on the way: an allocation of more than a tenth of the free memory."""

import os

import tensorflow as tf

free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
table = tf.zeros((int(free * 0.12) >> 22, 1 << 20))
print("loaded", table.shape)
print("epoch 1 loss", float(tf.reduce_sum(table[:1]) + 0.25))
print("done")
