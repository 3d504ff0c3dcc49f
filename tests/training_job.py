"""Trains one of the models for real, in a process of its own (`framework.train` starts it).

    python training_job.py JOB

JOB is JSON: model, batch, steps, accumulate. The last line of standard output is JSON: `peaks`, the bytes
that TensorFlow's allocator had handed out at most in each step, or `error`, its words when memory ran out.
"""

import json
import sys

import keras
import numpy
import tensorflow as tf
from keras_models import CASES

#: As many threads as Brimful counts with, whatever machine this is.
THREADS = 2
#: So many steps without a larger peak, and a larger one is no longer looked for.
QUIET_STEPS = 12


def unaligned(array):
    """The same numbers at an address that is no multiple of 64: TensorFlow always copies these."""
    memory = numpy.empty(array.nbytes + 128, "uint8")
    start = -memory.ctypes.data % 64 + array.itemsize
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def batch_for(case, model, batch):
    """Random inputs and targets of the shapes that the model asks for."""
    shape = (batch, *model.input_shape[1:])
    x = numpy.random.randint(0, case.tokens, shape) if case.tokens else numpy.random.rand(*shape).astype("float32")
    if case.classes:
        return x, numpy.random.randint(0, case.classes, (batch,))
    return x, numpy.random.rand(batch, *model.output_shape[1:]).astype("float32")


def train(job):
    """Builds the model and takes some steps with it."""
    case = CASES[job["model"]]
    model = case.build(keras)
    optimizer = keras.optimizers.get(case.optimizer)
    if job["accumulate"] > 1:
        optimizer = type(optimizer)(gradient_accumulation_steps=job["accumulate"])
    model.compile(optimizer, case.loss, jit_compile=False)
    x, y = map(unaligned, batch_for(case, model, job["batch"]))
    peaks = []
    # Not all of them, once a row of them has brought nothing new.
    while len(peaks) < job["steps"] and (len(peaks) < QUIET_STEPS or max(peaks) > max(peaks[:-QUIET_STEPS], default=0)):
        tf.config.experimental.reset_memory_stats("CPU:0")
        model.train_on_batch(x, y)
        peaks.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])
    return {"peaks": peaks}


def main():
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    keras.utils.set_random_seed(0)
    try:
        answer = train(json.loads(sys.argv[1]))
    except tf.errors.ResourceExhaustedError as error:
        answer = {"error": f"{type(error).__name__}: {error.message}"}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
