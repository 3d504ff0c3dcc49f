#!/usr/bin/env python3
"""Records what TensorFlow's BFC allocator did during small Keras training jobs.

In: nothing but an installed TensorFlow and Keras. Out: one gzipped text file for each job, for `crates/core/tests/bfc_logs.rs`.

    python tools/capture_bfc_log.py fixtures/traces/tensorflow_bfc            every job
    python tools/capture_bfc_log.py fixtures/traces/tensorflow_bfc cnn_64mb   some jobs
    python tools/capture_bfc_log.py --list

Each job runs in a process of its own, on the CPU, with TensorFlow's CPU memory under the BFC allocator and one thread
between and within ops, so that requests come one after the other. TensorFlow's own log is then translated:

    # KEY VALUE                what ran, and what TensorFlow said of it at the end
    extend ADDRESS BYTES       the pool took a region; it belongs to the `alloc` that follows
    alloc ADDRESS REQUESTED [CHUNK]   a request was served at ADDRESS; CHUNK is the whole chunk, where the log has it
    peak BYTES                 the `alloc` before raised the bytes in use to a new maximum of BYTES
    free ADDRESS               that buffer was given back
    fail REQUESTED             an attempt to serve a request failed
    region BYTES               after a `fail`: TensorFlow's dump of its pool; a region, followed by its chunks
    chunk ADDRESS BYTES used|free
    mark TEXT                  the script reached a point, such as `step 0`

Addresses are hexadecimal, sizes decimal.

A request that cannot be served is tried at once, again after every free for ten seconds, then a last time with a dump. The
first and the last attempt are written as `fail`; what other threads freed in between lies between the two. After the
first failure, ops that were already waiting for the same step fail one by one, ten seconds each.

TensorFlow's log tells the size of a freed buffer but not its address. The address comes from the `__LOG_MEMORY__` record
that the same thread writes before it frees: its allocation id is the number of the request, counted over the allocator's
life. The script stops if a free has no record, if a size does not agree, or if ids and addresses disagree anywhere.
"""

import argparse
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

FORMAT = 1
MARK = "BFCLOG "
ALLOCATOR = "bfc_cpu_allocator_for_gpu"
# Two threads this close to each other may have reached the allocator in the other order than the log.
RACE_S = 30e-6

# name: (model, batch, steps, limit in MiB). The limits with a failure are far from any rounding: they fail on any machine.
JOBS = {
    "mlp_1mb": ("mlp", 64, 4, 1),  # one region of the whole limit
    "mlp_1mb_fails": ("mlp", 1024, 2, 1),
    "mlp_300mb": ("mlp", 512, 4, 300),
    "cnn_1000mb": ("cnn", 128, 3, 1000),
    "cnn_100mb": ("cnn", 64, 3, 100),
    "cnn_64mb_fails": ("cnn", 128, 3, 64),
    "cnn_110mb_fails": ("cnn", 128, 3, 110),
    "lstm_200mb": ("lstm", 32, 2, 200),
    "lstm_10mb_fails": ("lstm", 64, 2, 10),
    "transformer_500mb": ("transformer", 16, 3, 500),
    "transformer_45mb_fails": ("transformer", 32, 2, 45),
    "wide_3000mb": ("wide", 256, 2, 3000),  # chunks beyond 128 and 256 MiB
    "wide_900mb_fails": ("wide", 256, 2, 900),
}


def build(keras, name):
    """The model, the shape and kind of one input, and the number of classes."""
    layers = keras.layers
    if name == "mlp":
        inputs = keras.Input((32,))
        x = layers.Dense(64, activation="relu")(inputs)
        x = layers.Dense(64, activation="relu")(x)
        return keras.Model(inputs, layers.Dense(10)(x)), "float"
    if name == "cnn":
        inputs = keras.Input((32, 32, 3))
        x = layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
        x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D()(x)
        x = layers.Conv2D(64, 3, activation="relu")(x)
        x = layers.Flatten()(x)
        x = layers.Dense(128, activation="relu")(x)
        x = layers.Dropout(0.5)(x)
        return keras.Model(inputs, layers.Dense(10)(x)), "float"
    if name == "lstm":
        inputs = keras.Input((24,), dtype="int32")
        x = layers.Embedding(2000, 64)(inputs)
        x = layers.LSTM(96, return_sequences=True)(x)
        x = layers.LSTM(64)(x)
        return keras.Model(inputs, layers.Dense(10)(x)), "int"
    if name == "transformer":
        inputs = keras.Input((64,), dtype="int32")
        x = layers.Embedding(2000, 128)(inputs)
        for _ in range(2):
            attended = layers.MultiHeadAttention(4, 32)(x, x)
            x = layers.LayerNormalization()(x + attended)
            hidden = layers.Dense(256, activation="gelu")(x)
            x = layers.LayerNormalization()(x + layers.Dense(128)(hidden))
        x = layers.GlobalAveragePooling1D()(x)
        return keras.Model(inputs, layers.Dense(10)(x)), "int"
    if name == "wide":
        inputs = keras.Input((64, 64, 3))
        x = layers.Conv2D(40, 3, padding="same", activation="relu")(inputs)
        x = layers.Conv2D(72, 3, padding="same", activation="relu")(x)
        x = layers.GlobalAveragePooling2D()(x)
        return keras.Model(inputs, layers.Dense(10)(x)), "float"
    raise SystemExit(f"no model named {name}")


def say(text):
    # One write to the descriptor TensorFlow's log goes to, so that the line keeps its place among the log's lines.
    os.write(2, f"{MARK}{text}\n".encode())


def run_job(name):
    """Inside the child process: train, then report and leave without a shutdown that would free everything."""
    model_name, batch, steps, _ = JOBS[name]
    import keras
    import numpy
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)

    class Steps(keras.callbacks.Callback):
        def on_train_batch_begin(self, step, logs=None):
            say(f"mark step {step}")

    say(f"set tensorflow {tf.__version__}")
    say(f"set keras {keras.__version__}")
    say(f"set python {sys.version.split()[0]}")
    model, kind = build(keras, model_name)
    say("mark model built")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    shape = (batch * steps,) + model.input_shape[1:]
    random = numpy.random.default_rng(0)
    x = random.random(shape, numpy.float32) if kind == "float" else random.integers(0, 2000, shape, numpy.int32)
    y = random.integers(0, 10, batch * steps, numpy.int32)
    say("mark fit")
    try:
        model.fit(x, y, batch_size=batch, epochs=1, verbose=0, shuffle=False, callbacks=[Steps()])
        outcome = "completed"
    except tf.errors.ResourceExhaustedError as error:
        found = re.search(r"OOM when allocating [^\n]*?(?= on /job)|failed to allocate[^\n]*", str(error))
        outcome = "resource_exhausted " + (found.group(0) if found else "without a shape")
    info = tf.config.experimental.get_memory_info("CPU:0")
    say(f"set outcome {outcome}")
    say(f"set peak_bytes {info['peak']}")
    say(f"set current_bytes {info['current']}")
    say("end")
    os._exit(0)


LINE = re.compile(r"^([IWEF])\d{4} \d\d:\d\d:(\d+\.\d+) +(\d+) (\w+\.cc):\d+\] (.*)$")
ALLOC_END = re.compile(rf"AllocateRaw {ALLOCATOR}  (\d+) (0x[0-9a-f]+|0|\(nil\))$")
ALLOC_BEGIN = re.compile(rf"AllocateRaw {ALLOCATOR}  (\d+)$")
FREE = re.compile(rf"DeallocateRaw {ALLOCATOR} (\d+)$")
REGION = re.compile(r"Allocated memory at 0x([0-9a-f]+) to 0x([0-9a-f]+)$")
PEAK = re.compile(rf"New Peak memory usage of (\d+) bytes for {ALLOCATOR}$")
FAILED = re.compile(rf"Allocator \({ALLOCATOR}\) ran out of memory trying to allocate .* \(rounded to (\d+)\)")
DUMP_REGION = re.compile(r"Next region of size (\d+)$")
DUMP_CHUNK = re.compile(r"(InUse|Free ) at ([0-9a-f]+) of size (\d+) next \d+")
ID = re.compile(rf'allocation_id: (\d+) allocator_name: "{ALLOCATOR}"')
RECORD = re.compile(rf'requested_bytes: (\d+) (?:allocated_bytes: (\d+) )?allocator_name: "{ALLOCATOR}" allocation_id: (\d+) .*?ptr: (\d+)')


class Unclear(Exception):
    """The log does not determine what happened."""


class Translation:
    """Reads the log line by line and keeps the events in the order in which the allocator saw them."""

    def __init__(self):
        self.settings = {}
        self.events = []  # lists of words
        self.open = {}  # thread: the request it is making
        self.by_id = {}  # allocation id: its `alloc` event
        self.live = {}  # allocation id: requested bytes
        self.freeing = {}  # thread: ids it has announced to free
        self.last = (None, 0.0)  # thread and time of the last event
        self.close_calls = 0
        self.done = False

    def commit(self, words, thread, time):
        previous_thread, previous_time = self.last
        if previous_thread not in (None, thread) and time - previous_time < RACE_S:
            self.close_calls += 1
        self.last = (thread, time)
        self.events.append(words)
        return words

    def line(self, text):
        if text.startswith(MARK):
            self.said(text[len(MARK) :])
        elif not self.done and (found := LINE.match(text)):
            _, time, thread, source, message = found.groups()
            if source == "bfc_allocator.cc":
                self.allocator(message, thread, float(time))
            elif source == "log_memory.cc":
                self.record(message, thread)

    def said(self, text):
        word, _, rest = text.partition(" ")
        if word == "set":
            key, _, value = rest.partition(" ")
            self.settings[key] = value
        elif word == "mark":
            self.events.append(["mark", rest])
        elif word == "end":
            self.done = True

    def served(self, request, thread, time):
        """Gives a request its place in the order and its id; the address follows."""
        if request.get("event") is None:
            request["event"] = self.commit(["alloc", None, request["bytes"]], thread, time)
            number = len(self.by_id) + 1
            self.by_id[number] = request["event"]
            self.live[number] = request["bytes"]

    def allocator(self, message, thread, time):
        request = self.open.get(thread)
        if found := ALLOC_END.match(message):
            if not request or request["bytes"] != int(found[1]):
                raise Unclear(f"an end without a beginning: {message}")
            del self.open[thread]
            address = int(found[2], 16) if found[2].startswith("0x") else 0
            if address:
                self.served(request, thread, time)
                request["event"][1] = f"{address:x}"
            elif request["bytes"] and not request["failed"]:
                raise Unclear("a request failed without a word")
        elif found := ALLOC_BEGIN.match(message):
            self.open[thread] = {"bytes": int(found[1]), "failed": False, "began": len(self.events)}
        elif found := REGION.match(message):
            begin, end = int(found[1], 16), int(found[2], 16)
            self.commit(["extend", f"{begin:x}", end - begin], thread, time)
            # Nobody else can come between: the allocator is locked until the request is served.
            self.served(request, thread, time)
        elif found := PEAK.match(message):
            self.served(request, thread, time)
            self.events.append(["peak", int(found[1])])
        elif found := FREE.match(message):
            self.freed(int(found[1]), thread, time)
        elif found := FAILED.match(message):
            if request["bytes"] > int(found[1]):
                raise Unclear(f"another request failed: {message}")
            # The first attempt came right after the request was announced.
            self.events.insert(request["began"], ["fail", request["bytes"]])
            self.commit(["fail", request["bytes"]], thread, time)
            request["failed"] = True
        elif found := DUMP_REGION.match(message):
            self.events.append(["region", int(found[1])])
        elif found := DUMP_CHUNK.match(message):
            self.events.append(["chunk", found[2], int(found[3]), "used" if found[1] == "InUse" else "free"])

    def freed(self, size, thread, time):
        if size == 0:
            return  # a null pointer
        announced = self.freeing.get(thread, [])
        # Buffers that hold other buffers announce themselves, then free what they hold, then themselves.
        for position in reversed(range(len(announced))):
            if self.live.get(announced[position]) == size:
                number = announced.pop(position)
                del self.live[number]
                self.commit(["free", self.by_id[number][1]], thread, time)
                return
        raise Unclear(f"a free of {size} bytes by thread {thread} without a record")

    def record(self, message, thread):
        if "Deallocation {" in message:
            if found := ID.search(message):
                self.freeing.setdefault(thread, []).append(int(found[1]))
        elif "MemoryLogTensorAllocation {" in message:
            for found in RECORD.finditer(message):
                requested, allocated, number, pointer = (int(value or 0) for value in found.groups())
                event = self.by_id.get(number)
                if event is None or event[1] != f"{pointer:x}":
                    raise Unclear(f"allocation {number} lies elsewhere than its record says")
                if event[2] == requested and len(event) == 3:
                    event.append(allocated or requested)


def capture(name, folder):
    model_name, batch, steps, limit_mib = JOBS[name]
    environment = dict(
        os.environ,
        TF_CPU_ALLOCATOR_USE_BFC="true",
        TF_CPU_BFC_MEM_LIMIT_IN_MB=str(limit_mib),
        TF_ENABLE_ONEDNN_OPTS="0",
        TF_CPP_MIN_LOG_LEVEL="0",
        TF_CPP_VMODULE="bfc_allocator=3,log_memory=2",
        CUDA_VISIBLE_DEVICES="",
        KERAS_BACKEND="tensorflow",
    )
    command = [sys.executable, __file__, "--job", name]
    translation = Translation()
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        try:
            for text in process.stderr:
                translation.line(text.rstrip("\n"))
        except Unclear:
            process.kill()
            raise
    if not translation.done:
        raise SystemExit(f"{name}: the job ended with {process.returncode} before its end")
    events = translation.events
    settings = {
        "format": FORMAT,
        "job": name,
        "model": model_name,
        "batch": batch,
        "steps": steps,
        "limit_bytes": limit_mib << 20,
        **translation.settings,
        "events": sum(event[0] in ("alloc", "free", "fail") for event in events),
        "close_calls": translation.close_calls,
    }
    text = "".join(f"# {key} {value}\n" for key, value in settings.items())
    text += "".join(" ".join(map(str, event)) + "\n" for event in events)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.txt.gz"
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.encode())
    counts = ", ".join(f"{settings[key]} {key}" for key in ("events", "close_calls", "peak_bytes", "outcome"))
    sys.stdout.write(f"{target}: {target.stat().st_size} bytes; {counts}\n")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("jobs", nargs="*", metavar="JOB")
    parser.add_argument("--list", action="store_true", help="name the jobs")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run_job(arguments.job)
    if arguments.list or not arguments.folder:
        for name, (model, batch, steps, limit) in JOBS.items():
            print(f"{name}: {model}, batch {batch}, {steps} steps, {limit} MiB")
        return
    for name in arguments.jobs or JOBS:
        for _ in range(5):
            try:
                capture(name, arguments.folder)
                break
            except Unclear as error:
                # Two threads met; another run has another order.
                print(f"{name}: {error}; once more", file=sys.stderr)
        else:
            raise SystemExit(f"{name}: no clear log in five runs")


if __name__ == "__main__":
    main()
