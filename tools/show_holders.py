#!/usr/bin/env python3
"""Shows who holds memory at the peak of a real training step: the other side of a plan's breakdown, to find the buffer that explains a difference.

In: a measured job. Out: the peak of each step, and at the largest what is held, by kernel, with chunks beside requests.

    python tools/show_holders.py MODEL BATCH OPTIMIZER [DTYPE]

TensorFlow's profiler tells each allocation and hardly slows the job; the allocator's own log (`TF_CPP_VMODULE`) slows small kernels several times, and
another order of kernels has another peak. Not shown: what was there before the profiler began, which are weights, slots and constants.
"""

import glob
import os
import re
import sys
import tempfile
from collections import defaultdict

from measure_tensorflow import ENVIRONMENT

os.environ.update(ENVIRONMENT)

import keras
import numpy
import tensorflow as tf
from measured_models import prepare
from tensorflow.tsl.profiler.protobuf import xplane_pb2

STEPS = 3
SHOWN = 25


def allocations(space):
    """What the allocator did, in order: time, whether it is a request, and what the profiler says of it."""
    found = []
    for plane in space.planes:
        names = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                kind = plane.event_metadata[event.metadata_id].name
                if kind in ("MemoryAllocation", "MemoryDeallocation"):
                    told = {}
                    for stat in event.stats:
                        value = getattr(stat, stat.WhichOneof("value"))
                        told[names[stat.metadata_id]] = names.get(value, value) if stat.HasField("ref_value") else value
                    found.append((line.timestamp_ns + event.offset_ps / 1000, kind == "MemoryAllocation", told))
    return sorted(found, key=lambda one: one[0])


def profiled(step):
    """What the allocator did in some steps."""
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        for _ in range(STEPS):
            step()
        tf.profiler.experimental.stop()
        (path,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        space = xplane_pb2.XSpace()
        with open(path, "rb") as file:
            space.ParseFromString(file.read())
    return allocations(space)


def at_peak(events):
    """The largest sum of bytes, who asked last, and what is held then."""
    held, peak = {}, (0, "", {})
    for _, asks, told in events:
        if asks:
            held[told["addr"]] = (int(told["allocation_bytes"]), int(told["requested_bytes"]), str(told.get("tf_op", "")))
        else:
            held.pop(told.get("addr"), None)
        if int(told["bytes_allocated"]) > peak[0]:
            peak = (int(told["bytes_allocated"]), told.get("tf_op", ""), dict(held))
    return peak


def main():
    name, batch, optimizer = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    keras.utils.set_random_seed(0)
    if len(sys.argv) > 4:
        keras.mixed_precision.set_global_policy(sys.argv[4])
    model, _, loss, (x, y) = prepare(keras, numpy, name, batch)
    model.compile(optimizer, loss, jit_compile=False)
    model.train_on_batch(x, y)

    def step():
        tf.config.experimental.reset_memory_stats("CPU:0")
        model.train_on_batch(x, y)
        print("peak", tf.config.experimental.get_memory_info("CPU:0")["peak"])

    peak, asked, held = at_peak(profiled(step))
    print(f"{peak} bytes, as {asked} asks; MiB asked for, MiB of chunks, buffers, kernels alike:")
    groups = defaultdict(lambda: [0, 0, 0])
    for chunk, requested, kernel in held.values():
        group = groups[re.sub(r"\d+", "N", kernel)]
        group[0], group[1], group[2] = group[0] + requested, group[1] + chunk, group[2] + 1
    for kernel, (requested, chunks, count) in sorted(groups.items(), key=lambda group: -group[1][0])[:SHOWN]:
        print(f"{requested / 2**20:9.1f} {chunks / 2**20:9.1f} {count:6d}  {kernel}")


if __name__ == "__main__":
    main()
