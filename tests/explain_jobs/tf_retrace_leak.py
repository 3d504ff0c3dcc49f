"""A tf.function that is traced again for every Python number and keeps what each trace captured."""

import numpy as np
import tensorflow as tf

weights = tf.Variable(tf.ones([256, 256]))


@tf.function
def step(number):
    mask = tf.random.stateless_uniform([256, 256], seed=[number, 1])
    with tf.init_scope():
        kept.append(tf.random.stateless_uniform([1024, 1024], seed=[number, 2]))
    return tf.reduce_sum(weights * mask) + tf.reduce_mean(kept[-1])


kept = []
for number in range(1000):
    loss = step(number)
    used = tf.config.experimental.get_memory_info("CPU:0")["current"] / 2**20
    print(f"step {number} loss {np.asarray(loss):.3f} memory {used:.1f} MiB traces {step.experimental_get_tracing_count()}", flush=True)
