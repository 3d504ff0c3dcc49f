"""Measures what Keras training steps really use, in TensorFlow's own BFC allocator on the CPU.

    python tools/measure_tensorflow.py OUT.jsonl MODELS_DIR [NAME…]

Each job runs in a process of its own: `train_on_batch` calls for three updates with `jit_compile=False`, the allocator's statistics
reset before each. A line of OUT.jsonl is one job: its settings, the parameters, the state before the first step, the peak of
each step. The models are written to MODELS_DIR as `model.to_json()`, those of the fifth table and later as archives
without weights, compiled; they stand in `measured_models`. TensorFlow 2.21 and Keras 3.15 made the rows in `fixtures/measured`.
"""

import json
import os
import subprocess
import sys
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


def main():
    if sys.argv[1] == "--child":
        return measure(*json.loads(sys.argv[2]))
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
