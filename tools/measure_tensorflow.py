"""Measures what Keras training steps really use, in TensorFlow's own BFC allocator on the CPU.

    python tools/measure_tensorflow.py OUT.jsonl MODELS_DIR [NAME…]
    python tools/measure_tensorflow.py --again STARTS ROWS.jsonl [MODEL-BATCH-OPTIMIZER-DTYPE…]

Each job runs in a process of its own: `train_on_batch` calls for three updates with `jit_compile=False`, the allocator's statistics
reset before each. A line of OUT.jsonl is one job: its settings, the processor's cache, the parameters, the state before the first step,
the peak of each step. The models are written to MODELS_DIR as `model.to_json()`, those of the fifth table and later as archives
without weights, compiled; they stand in `measured_models`. `--again` starts the jobs of rows that are there once more (all, or those named) and adds the
largest peak of each start to the row, as `further_peaks`. TensorFlow 2.21 and Keras 3.15 made the rows in `fixtures/measured`.
"""

import ctypes
import json
import mmap
import os
import platform
import subprocess
import sys
import tempfile
import zipfile

from measured_models import JOBS, first_job, prepare

ENVIRONMENT = {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPU_ALLOCATOR_USE_BFC": "true",
    "TF_CPU_BFC_MEM_LIMIT_IN_MB": "16000",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def save(model, path):
    """The model as `to_json()`, or, where the path says so, as an archive without the weights' bytes."""
    if path.endswith(".json"):
        with open(path, "w") as file:
            file.write(model.to_json())
        return
    model.save(path + ".whole.keras")
    with zipfile.ZipFile(path + ".whole.keras") as whole, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("metadata.json", "config.json"):
            archive.writestr(name, whole.read(name))
    os.remove(path + ".whole.keras")


def last_level_cache():
    """The cache that Eigen reads off an AMD processor (CPUID, leaf 0x80000006, in units of 512 KiB): TensorFlow fills it with volumes."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return 0
    # push rbx; mov eax, 0x80000006; cpuid; mov eax, edx; pop rbx; ret
    code = bytes.fromhex("53 b8 06 00 00 80 0f a2 89 d0 5b c3")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return (ctypes.CFUNCTYPE(ctypes.c_uint32)(ctypes.addressof(ctypes.c_char.from_buffer(page)))() >> 18) << 19


def measure(name, batch, optimizer, dtype, settings, models_dir):
    import keras
    import numpy
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    if dtype != "float32":
        keras.mixed_precision.set_global_policy(dtype)
    model, loss, compiled_loss, (x, y) = prepare(keras, numpy, name, batch)
    # Keras's own list of names leaves some of its optimizers out.
    kinds = {name.lower(): kind for name, kind in vars(keras.optimizers).items() if isinstance(kind, type)}
    optimizer_object = kinds[optimizer](**settings)
    model.compile(optimizer_object, compiled_loss, jit_compile=False)

    def info():
        return tf.config.experimental.get_memory_info("CPU:0")

    row = {"model": name, "batch": batch, "opt": optimizer, **({"settings": settings} if settings else {}), "dtype": dtype}
    # Other processors say nothing there.
    row.update({"cache": cache} if (cache := last_level_cache()) else {})
    row.update(loss=loss, params=model.count_params(), before=info(), steps=[])
    # Three updates, where several batches make one.
    for _ in range(3 * settings.get("gradient_accumulation_steps", 1)):
        tf.config.experimental.reset_memory_stats("CPU:0")
        model.train_on_batch(x, y)
        row["steps"].append(info())
    if dtype == "float32":
        first = first_job(name)
        if first is None:
            save(model, os.path.join(models_dir, name + ".json"))
        elif first[1:3] == (batch, optimizer):
            save(model, os.path.join(models_dir, name + ".keras"))
    print("ROW " + json.dumps(row))


def in_a_process_of_its_own(program, job):
    """The row that a program prints for one job, in the allocator that is measured."""
    command = [sys.executable, program, "--child", json.dumps(job)]
    run = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    row = next((line[4:] for line in run.stdout.splitlines() if line.startswith("ROW ")), None)
    if row is None:
        sys.exit(f"{job} failed:\n{run.stderr[-3000:]}")
    return row


def again(starts, path, names):
    """Adds further starts to the rows of a file."""
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        job = [row["model"], row["batch"], row["opt"], row["dtype"]]
        if names and "-".join(map(str, job)) not in names:
            continue
        while len(row.setdefault("further_peaks", [])) < starts:
            with tempfile.TemporaryDirectory() as models:
                further = json.loads(in_a_process_of_its_own(__file__, [*job, row.get("settings", {}), models]))
            row["further_peaks"].append(max(step["peak"] for step in further["steps"]))
        print(*job, max(step["peak"] for step in row["steps"]), row["further_peaks"], flush=True)
        with open(path, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def main():
    if sys.argv[1] == "--child":
        return measure(*json.loads(sys.argv[2]))
    if sys.argv[1] == "--again":
        return again(int(sys.argv[2]), sys.argv[3], sys.argv[4:])
    out, models_dir, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    for job in JOBS:
        if names and job[0] not in names:
            continue
        settings = job[4] if len(job) > 4 else {}
        row = in_a_process_of_its_own(__file__, [*job[:4], settings, models_dir])
        with open(out, "a") as file:
            file.write(row + "\n")
        print(*job, [step["peak"] for step in json.loads(row)["steps"]], flush=True)


if __name__ == "__main__":
    main()
