#!/usr/bin/env python3
"""Measures how long TensorFlow's kernels run on this CPU and how long its threads take to wake, with TensorFlow's own profiler.

In: nothing but an installed TensorFlow. Out: a table, the source of the figures in `docs/decisions/simulate-the-executor.md`.

    python tools/measure_kernel_pace.py

A result that two kernels read is followed by both: the thread that made it runs one of them, the other one must be fetched by a second thread, which
had nothing to do as long as the result took. Not measured: kernels that compute more than they touch.
"""

import glob
import os
import tempfile
from collections import defaultdict

os.environ.update(TF_ENABLE_ONEDNN_OPTS="0", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
# As where peaks were measured: its memory is there already, and need not be cleared by the system.
os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="true", TF_CPU_BFC_MEM_LIMIT_IN_MB="4000")

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

THREADS = 2
PICOSECONDS = 1e6
ELEMENTS = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 17, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
SIDES = (128, 192, 256, 768, 1024)
TURNS = 200


def profiled(run, turns):
    """What ran: begin, duration and thread of each event in microseconds, with the name that the graph gives it and the kind of kernel."""
    for _ in range(10):
        run()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        for _ in range(turns):
            run()
        tf.profiler.experimental.stop()
        (file,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        space = xplane_pb2.XSpace()
        with open(file, "rb") as written:
            space.ParseFromString(written.read())
    events = []
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name, _, kind = plane.event_metadata[event.metadata_id].name.partition(":")
                begin = line.timestamp_ns / 1e3 + event.offset_ps / PICOSECONDS
                events.append((begin, event.duration_ps / PICOSECONDS, line.id, name, kind))
    return sorted(events)


def of_ten(values):
    """The first, the middle and the last tenth."""
    values = sorted(values)
    return [round(values[int(len(values) * share)], 1) for share in (0.1, 0.5, 0.9)] if values else None


def durations():
    """By the bytes of a tensor: how long it takes to square it, to subtract another from it, to cut it off at zero."""

    @tf.function(jit_compile=False)
    def step(x, y):
        return tf.reduce_sum(tf.nn.relu(tf.square(x) - y))

    print("bytes: microseconds of a kernel, first, middle and last tenth")
    for elements in ELEMENTS:
        x, y = tf.random.normal((elements,)), tf.random.normal((elements,))
        found = defaultdict(list)
        for _, duration, _, _, kind in profiled(lambda x=x, y=y: step(x, y).numpy(), max(8, min(TURNS, (1 << 26) // elements))):
            found[kind].append(duration)
        print(f"{4 * elements}:", {kind: of_ten(found[kind]) for kind in ("Square", "Sub", "Relu")})


def wakings():
    """By the time for which the second thread had nothing to do: how long until it begins what was queued for it."""

    @tf.function(jit_compile=False)
    def step(x):
        product = tf.matmul(tf.matmul(x, x, name="first"), x, name="second")
        return tf.reduce_sum(tf.square(product, name="square")) + tf.reduce_sum(tf.exp(product, name="exponent"))

    print("idle microseconds: until the second thread begins, first, middle and last tenth")
    for side in SIDES:
        x = tf.random.normal((side, side))
        idle, gaps, begun, ended = [], [], 0.0, None
        for begin, duration, thread, name, _ in profiled(lambda x=x: step(x).numpy(), TURNS):
            if name == "first":
                begun = begin
            elif name == "second":
                ended = begin + duration, thread
            elif name in ("square", "exponent") and ended and thread != ended[1]:
                idle.append(ended[0] - begun)
                gaps.append(begin - ended[0])
                ended = None
        print(f"{of_ten(idle)}:", of_ten(gaps), f"in {len(gaps)} of {TURNS}")


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    durations()
    wakings()
