"""Train with the largest batch that a plan proposes, in the memory that it was planned for. Needs a GPU.

In: jobs of `torch_jobs.py` without a batch. Out: for each, the batch that `brimful.plan` proposes for a capped allocator, whether three
steps of it run under that cap, and whether a batch larger by a fifteenth still does.

    python tools/check_max_batch.py [--gib 14]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

JOBS = [
    {"model": "resnet34", "opt": "adamw", "dtype": "fp32"},
    {"model": "efficientnet_b1", "opt": "momentum", "dtype": "bf16"},
    {"model": "convnext_small", "opt": "adamw", "dtype": "fp32"},
    {"model": "swin_t", "opt": "adamw", "dtype": "bf16"},
    {"model": "regnet_y_1_6gf", "opt": "sgd", "dtype": "fp32"},
    {"model": "densenet201", "opt": "adamw", "dtype": "bf16"},
    {"model": "roberta", "opt": "adamw", "dtype": "bf16", "seq": 384},
    {"model": "qwen2", "opt": "adamw", "dtype": "bf16", "seq": 640, "ckpt": 1},
    {"model": "stablelm", "opt": "sgd", "dtype": "fp32", "seq": 512},
    {"model": "bart", "opt": "adamw", "dtype": "fp32", "seq": 384},
    {"model": "lstm_wide", "opt": "adamw", "dtype": "fp32"},
    {"model": "group_norm", "opt": "adamw", "dtype": "bf16"},
]


def propose(job: dict, gib: float) -> int:
    warnings.simplefilter("ignore")
    import torch_accuracy

    return torch_accuracy.predicted(dict(job, batch=8), memory=f"{gib}GiB").max_batch


def train(job: dict, gib: float) -> bool:
    import torch
    import torch_jobs

    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(gib * 2**30 / total)
    try:
        model, optimizer, batch, step = torch_jobs.on_device(job, torch.device("cuda"))
        for _ in range(3):
            step(model, optimizer, batch)
        torch.cuda.synchronize()
    except torch.OutOfMemoryError:
        return False
    return True


def child(*arguments: str):
    run = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, timeout=240)
    if run.returncode:
        return run.stderr[-300:]
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--gib", type=float, default=14)
    arguments.add_argument("--propose", help=argparse.SUPPRESS)
    arguments.add_argument("--train", help=argparse.SUPPRESS)
    arguments.add_argument("--parallel", type=int, default=6)
    options = arguments.parse_args()
    if options.propose:
        print(json.dumps(propose(json.loads(options.propose), options.gib)))
        return
    if options.train:
        print(json.dumps(train(json.loads(options.train), options.gib)))
        return

    def check(job: dict) -> str:
        gib = ["--gib", str(options.gib)]
        batch = child("--propose", json.dumps(job), *gib)
        if not isinstance(batch, int):
            return f"{job}: no proposal: {batch}"
        larger = batch + max(1, batch // 15)
        runs = [child("--train", json.dumps(dict(job, batch=size)), *gib) for size in (batch, larger)]
        said = {True: "trains", False: "runs out of memory"}
        name = " ".join(str(job.get(key, "")) for key in ("model", "opt", "dtype", "seq"))
        return f"{name:36} proposed {batch:6} {said.get(runs[0], runs[0])};  {larger:6} {said.get(runs[1], runs[1])}"

    with ThreadPoolExecutor(options.parallel) as pool:
        for line in pool.map(check, JOBS):
            print(line, flush=True)


if __name__ == "__main__":
    main()
