"""Half of the pool is free, in holes of 4 MiB; the request is 24 MiB."""

import tensorflow as tf

held = [tf.ones([1024, 1024]) for _ in range(22)]
del held[::2]
info = tf.config.experimental.get_memory_info("CPU:0")
print(f"in use {info['current'] / 2**20:.1f} MiB of 96 MiB")
activations = tf.ones([6, 1024, 1024])
print(activations.shape)
