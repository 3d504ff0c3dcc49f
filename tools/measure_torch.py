"""Measure the peaks of real PyTorch training steps. Needs a GPU.

In: jobs of `torch_jobs.py`, one JSON object per line. Out: the same lines with what PyTorch's allocator and the driver showed after each
of three steps, as `fixtures/measured/torch_*.jsonl` have them. Every job runs in a process of its own.

    python tools/measure_torch.py --jobs jobs.jsonl --out measured.jsonl
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def measure(job, steps=3):
    import torch
    import torch_jobs

    device = torch.device("cuda")
    torch.manual_seed(0)
    torch.zeros(1, device=device)
    model, optimizer, batch, step = torch_jobs.on_device(job, device)
    if job.get("variant") == "compile":
        model = torch.compile(model)
    result = dict(job, params=sum(p.numel() for p in model.parameters()), alloc_before=torch.cuda.memory_allocated(), steps=[])
    for _ in range(steps):
        step(model, optimizer, batch)
        torch.cuda.synchronize()
        peaks = dict(peak_alloc=torch.cuda.max_memory_allocated(), peak_reserved=torch.cuda.max_memory_reserved())
        result["steps"].append(dict(peaks, alloc=torch.cuda.memory_allocated()))
    result["peak_requested"] = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    result["nvml_mib"] = process_mib()
    return result


def process_mib():
    """What the driver shows for this process, context included; empty where it does not say."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    lines = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
    return [int(line.split(",")[1]) for line in lines if line.split(",")[0].strip() == str(os.getpid())]


def launch(job, limit):
    environment = dict(os.environ)
    if job.get("variant") == "expandable":
        environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return dict(job, error="timeout")
    if run.returncode == 0 and run.stdout:
        return json.loads(run.stdout.splitlines()[-1])
    return dict(job, error=run.stderr[-600:])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--child", help=argparse.SUPPRESS)
    arguments.add_argument("--jobs")
    arguments.add_argument("--out")
    arguments.add_argument("--parallel", type=int, default=8)
    arguments.add_argument("--limit", type=float, default=120, help="seconds for one job")
    arguments.add_argument("--deadline", type=float, default=480, help="seconds after which no job is begun")
    options = arguments.parse_args()
    if options.child:
        print(json.dumps(measure(json.loads(options.child))))
        return
    start = time.time()
    jobs = [json.loads(line) for line in open(options.jobs)]

    def go(job):
        return dict(job, error="deadline") if time.time() - start > options.deadline else launch(job, options.limit)

    with ThreadPoolExecutor(options.parallel) as pool, open(options.out, "w") as out:
        for result in pool.map(go, jobs):
            out.write(json.dumps(result) + "\n")
            out.flush()
            name = " ".join(str(result.get(key, "")) for key in ("model", "batch", "opt", "dtype", "variant"))
            print(name, [step["peak_alloc"] // 2**20 for step in result.get("steps", [])], result.get("error", "")[-200:], flush=True)


if __name__ == "__main__":
    main()
