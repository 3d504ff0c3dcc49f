"""Record what every op of a real training step asks of the CUDA allocator.

In: jobs of `torch_jobs.py`. Out: one gzipped JSON line per job: the ops in order with the shapes and dtypes of their tensors, and
the allocator's events between them, so that a prediction can be compared event by event. Needs a GPU.
"""

import argparse
import gzip
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

BEGIN_BYTES, END_BYTES = 501, 503


def describe(value):
    import torch

    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        text = f"{name}{list(value.shape)}".replace(" ", "")
        return text if value.is_contiguous() else text + f"s{list(value.stride())}".replace(" ", "")
    if isinstance(value, (list, tuple)):
        if len(value) > 12 and isinstance(value[0], torch.Tensor):
            return [f"{len(value)} tensors"]
        return [describe(item) for item in value]
    if isinstance(value, (int, float, bool, str)) or value is None:
        return value
    return str(value)


def record(job, steps=2):
    import torch
    import torch_jobs
    from torch.utils._python_dispatch import TorchDispatchMode

    device = torch.device("cuda")
    torch.manual_seed(0)
    torch.zeros(1, device=device)
    calls = []

    class Bracket(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append([str(func), describe(args), describe(kwargs or {})])
            torch.empty(BEGIN_BYTES, dtype=torch.uint8, device=device)
            result = func(*args, **(kwargs or {}))
            torch.empty(END_BYTES, dtype=torch.uint8, device=device)
            calls[-1].append(describe(result))
            return result

    torch.cuda.memory._record_memory_history(max_entries=4_000_000, context=None)
    model, optimizer, batch, step = torch_jobs.on_device(job, device)
    result = dict(job, alloc_before=torch.cuda.memory_allocated(), peaks=[])
    with Bracket():
        for _ in range(steps):
            step(model, optimizer, batch)
            torch.cuda.synchronize()
            result["peaks"].append([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()])
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    events, ids, call = [], {}, 0
    marker = set()
    for entry in trace:
        action, address, size = entry["action"], entry["addr"], entry["size"]
        if action == "alloc":
            if size in (BEGIN_BYTES, END_BYTES):
                marker.add(address)
                if size == BEGIN_BYTES:
                    events.append(call)
                    call += 1
                else:
                    events.append(-1)
                continue
            ids[address] = len(ids) + 1_000_000
            events.append(["a", size, ids[address]])
            ids[address] = events[-1][2]
        elif action == "free_completed":
            if address in marker:
                marker.discard(address)
            else:
                events.append(["f", ids.get(address, -1)])
        elif action.startswith("segment"):
            events.append([action, size])
    return dict(result, calls=calls, events=events)


def launch(job, limit=90):
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    try:
        run = subprocess.run(command, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return json.dumps(dict(job, error="timeout"))
    if run.returncode == 0 and run.stdout:
        return run.stdout.decode().splitlines()[-1]
    return json.dumps(dict(job, error=run.stderr.decode()[-800:]))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--child")
    arguments.add_argument("--jobs", help="a file with one job per line")
    arguments.add_argument("--out")
    arguments.add_argument("--parallel", type=int, default=10)
    arguments.add_argument("--deadline", type=float, default=420)
    options = arguments.parse_args()
    if options.child:
        print(json.dumps(record(json.loads(options.child)), separators=(",", ":")))
        return
    start = time.time()
    jobs = [json.loads(line) for line in open(options.jobs)]

    def go(job):
        if time.time() - start > options.deadline:
            return json.dumps(dict(job, error="deadline"))
        return launch(job)

    with ThreadPoolExecutor(options.parallel) as pool, gzip.open(options.out, "wt") as out:
        for line in pool.map(go, jobs):
            out.write(line + "\n")
            out.flush()
            result = json.loads(line)
            name = [result.get(key) for key in ("model", "batch", "opt", "dtype", "variant")]
            print(*name, result.get("peaks"), result.get("error", "")[-200:], flush=True)
    print("seconds", round(time.time() - start))


if __name__ == "__main__":
    main()
