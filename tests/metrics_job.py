"""Trains a network with 1000 outputs, or one that marks pixels, with a loss and metrics, in a process of its own.

    python metrics_job.py JOB FILE

JOB is JSON: last, the activation of the outputs; loss and metrics, as Python that `keras` is known to; steps. FILE is where the compiled model
goes. The last line of standard output is JSON: the bytes that TensorFlow's allocator had handed out at most in each step.
"""

import json
import sys

import keras
import numpy
import tensorflow as tf

BATCH, PICTURES = 2048, 32


def network(last):
    """Few weights and much to compare."""
    L = keras.layers
    if last == "pixels":
        convolutions = [L.Conv2D(16, 3, padding="same", activation="relu") for _ in range(2)]
        return keras.Sequential([L.Input((64, 64, 3)), *convolutions, L.Conv2D(1, 1, activation="sigmoid")]), PICTURES
    return keras.Sequential([L.Input((64,)), L.Dense(256, activation="relu"), L.Dense(1000, activation=last)]), BATCH


def held(array):
    """The same numbers in the allocator's memory, as a data set would have them."""
    return tf.raw_ops.AddV2(x=tf.constant(array), y=tf.constant(0, array.dtype))


def main():
    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    job = json.loads(sys.argv[1])
    model, batch = network(job["last"])
    model.compile("adam", eval(job["loss"]), metrics=eval(job["metrics"]), jit_compile=False)
    x = numpy.random.rand(batch, *model.input_shape[1:]).astype("float32")
    y = numpy.random.rand(batch, *model.output_shape[1:]).astype("float32")
    x, y = held(x), held(numpy.round(y) if job["last"] in ("sigmoid", "pixels") else y)
    peaks = []
    for _ in range(job["steps"]):
        tf.config.experimental.reset_memory_stats("CPU:0")
        model.train_on_batch(x, y)
        peaks.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])
    model.save(sys.argv[2])
    print(json.dumps({"batch": batch, "peaks": peaks}))


if __name__ == "__main__":
    main()
