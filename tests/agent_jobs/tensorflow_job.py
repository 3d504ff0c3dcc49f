"""Training loops with TensorFlow and Keras's optimizers, of all forms that are counted. Prints the steps they make."""

import json
import sys
import time

import keras
import tensorflow as tf

rows, targets = tf.ones((10, 4)), tf.ones((10, 1))
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])


def update(optimizer, rows, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(rows) - targets) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


def batches():
    for _ in range(10):
        time.sleep(0.01)
        yield rows.numpy(), targets.numpy()


signature = (tf.TensorSpec((10, 4)), tf.TensorSpec((10, 1)))
dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)

optimizer = keras.optimizers.SGD(0.01)
for _ in range(5):  # Eagerly: 5.
    update(optimizer, rows, targets)

step = tf.function(lambda rows, targets: update(optimizer, rows, targets))
for batch in dataset:  # 10
    step(*batch)


@tf.function
def over_the_dataset():
    for batch_rows, batch_targets in dataset:
        update(optimizer, batch_rows, batch_targets)


@tf.function
def in_a_loop():
    for _ in tf.range(6):
        update(optimizer, rows, targets)


class Trainer(tf.Module):
    @tf.function
    def train(self):
        update(optimizer, rows, targets)


over_the_dataset()  # 10
over_the_dataset()  # 10
in_a_loop()  # 6
trainer = Trainer()
for _ in range(3):  # 3
    trainer.train()

tf.function(lambda: model(rows))()  # Does not train.
print(json.dumps({"steps": 5 + 10 + 20 + 6 + 3, "iterations": int(optimizer.iterations.numpy())}), flush=True)
print(sys.argv[1:], file=sys.stderr)


@tf.function
def fails():
    raise ValueError("this function cannot be traced")


fails()
