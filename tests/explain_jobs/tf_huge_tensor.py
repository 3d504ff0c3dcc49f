"""A distance matrix of all pairs, where those of a batch were meant."""

import tensorflow as tf

points = tf.random.normal([60000, 3])
squares = tf.reduce_sum(points**2, axis=1)
distances = squares[:, None] - 2 * tf.matmul(points, points, transpose_b=True) + squares[None, :]
print(distances.shape)
