#!/usr/bin/env python3
"""The jobs of `check_run_gpu.py`: each does one thing to a GPU's memory, and prints what it knows of itself.

    python tools/run_gpu_jobs.py JOB
    python tools/run_gpu_jobs.py hold GIB       # leaves so much of the device to others until it is killed

In: the name of a job. Out: lines of `KNOWS` and JSON. Needs a GPU with PyTorch or JAX; some end out of memory, as they are meant to.
"""

import json
import os
import sys
import time

MIB, GIB = 1 << 20, 1 << 30
#: What the leaking jobs keep of each step.
LEAK_BYTES = 2 * MIB


def know(**facts):
    """What a job knows of itself, for the comparison."""
    print("KNOWS", json.dumps({"unix_s": time.time(), "pid": os.getpid(), **facts}), flush=True)


def torch_share(gib):
    import torch

    torch.cuda.set_per_process_memory_fraction(gib * GIB / torch.cuda.get_device_properties(0).total_memory)
    return int(gib * GIB)


def torch_model(width=2048, depth=8):
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(depth)]).cuda()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-5)


def torch_step(model, optimizer, rows):
    loss = model(rows).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def torch_knows():
    import torch

    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    know(
        allocated=stats["allocated_bytes.all.current"],
        peak=stats["allocated_bytes.all.peak"],
        reserved=stats["reserved_bytes.all.current"],
        used=total - free,
        total=total,
    )


def job_torch_steady():
    import torch

    limit = torch_share(20)
    model, optimizer = torch_model()
    rows = torch.randn(16384, 2048, device="cuda")
    end, step = time.time() + 22, 0
    while time.time() < end:
        torch_step(model, optimizer, rows)
        step += 1
        if step % 200 == 0:
            torch.cuda.synchronize()
            torch_knows()
            time.sleep(0.3)
    know(steps=step, limit=limit)


def job_torch_leak():
    import torch

    limit = torch_share(2.6)
    model, optimizer = torch_model(1024, 4)
    rows, kept, step = torch.randn(256, 1024, device="cuda"), [], 0
    torch_step(model, optimizer, rows)
    know(limit=limit, bytes_per_step=LEAK_BYTES)
    while True:
        torch_step(model, optimizer, rows)
        kept.append(torch.ones(LEAK_BYTES // 4, device="cuda"))
        step += 1
        if step % 100 == 0:
            know(step=step + 1, allocated=torch.cuda.memory_allocated())
        time.sleep(0.02)


def job_torch_reserved():
    """2.4 GiB in segments that are each held by one small piece, then tensors that fit into none of the gaps."""
    import torch

    limit = torch_share(6)
    pieces = [torch.empty(6 * MIB, dtype=torch.uint8, device="cuda") for _ in range(360)]
    held = pieces[::3]
    del pieces
    large = [torch.empty(16 * MIB, dtype=torch.uint8, device="cuda") for _ in range(84)]
    model, optimizer = torch_model(256, 2)
    rows, end = torch.randn(64, 256, device="cuda"), time.time() + 200
    know(limit=limit, pieces=len(held), large=len(large))
    while time.time() < end:
        torch_step(model, optimizer, rows)
        time.sleep(0.2)
    torch_knows()


def job_torch_waits():
    import torch

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 20

        def __getitem__(self, index):
            time.sleep(0.0075)
            return torch.randn(1024)

    model, optimizer = torch_model(1024, 4)
    end, began, waited = time.time() + 50, time.time(), 0.0
    loader = iter(torch.utils.data.DataLoader(Slow(), batch_size=8))
    while time.time() < end:
        asked = time.time()
        rows = next(loader).cuda()
        waited += time.time() - asked
        torch_step(model, optimizer, rows)
        torch.cuda.synchronize()
        time.sleep(0.03)
    know(waited_share=waited / (time.time() - began))


def job_torch_idle():
    import torch

    model, optimizer = torch_model(512, 4)
    rows, end = torch.randn(64, 512, device="cuda"), time.time() + 50
    while time.time() < end:
        torch_step(model, optimizer, rows)
        begin = time.time()
        while time.time() - begin < 0.03:
            pass


def job_torch_other():
    import torch

    model, optimizer = torch_model(1024, 4)
    for power in range(10, 24):
        torch_step(model, optimizer, torch.randn(1 << power, 1024, device="cuda"))
        time.sleep(0.2)


def job_torch_batch():
    import torch

    torch_share(3)
    model, optimizer = torch_model(1024, 12)
    for _ in range(100):
        torch_step(model, optimizer, torch.randn(8192, 1024, device="cuda"))
        time.sleep(0.02)
    torch_step(model, optimizer, torch.randn(1 << 17, 1024, device="cuda"))


def jax_training(width=1024, depth=4):
    import jax
    import jax.numpy as jnp

    def loss(weights, rows):
        for weight in weights:
            rows = jnp.tanh(rows @ weight)
        return jnp.mean(rows**2)

    @jax.jit
    def step(weights, rows):
        value, gradients = jax.value_and_grad(loss)(weights, rows)
        return value, [weight - 0.01 * gradient for weight, gradient in zip(weights, gradients)]

    return step, [jnp.ones((width, width)) * 0.01 for _ in range(depth)]


def jax_knows(**more):
    import jax

    know(stats=jax.local_devices()[0].memory_stats(), **more)


def job_jax_steady():
    import jax
    import jax.numpy as jnp

    step, weights = jax_training(2048, 8)
    rows, end, number = jnp.ones((16384, 2048)), time.time() + 18, 0
    while time.time() < end:
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            value, weights = step(weights, rows)
        number += 1
        if number % 200 == 0:
            value.block_until_ready()
            time.sleep(0.15)
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                pass
            jax_knows()
            time.sleep(0.3)
    jax_knows(steps=number)


def job_jax_leak(marked=True):
    import contextlib

    import jax
    import jax.numpy as jnp

    step, weights = jax_training()
    rows, kept, number = jnp.ones((256, 1024)), [], 0
    mark = jax.profiler.StepTraceAnnotation if marked else lambda *args, **kwargs: contextlib.nullcontext()
    jax_knows(bytes_per_step=LEAK_BYTES)
    while True:
        with mark("train", step_num=number):
            value, weights = step(weights, rows)
        kept.append(jax.block_until_ready(jnp.zeros(LEAK_BYTES // 4) + number))
        number += 1
        if number % 100 == 0:
            jax_knows(step=number)
        time.sleep(0.015)


def job_jax_plain_leak():
    job_jax_leak(marked=False)


def job_jax_preallocated():
    """What JAX reserves when it starts is no waste of this job's making; long enough to be found, if it is."""
    import jax
    import jax.numpy as jnp

    step, weights = jax_training()
    rows, end, number = jnp.ones((256, 1024)), time.time() + 200, 0
    while time.time() < end:
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            value, weights = step(weights, rows)
        number += 1
        time.sleep(0.2)
    jax_knows(steps=number)


def job_jax_other():
    import jax
    import jax.numpy as jnp

    step, weights = jax_training()
    for power in range(10, 24):
        with jax.profiler.StepTraceAnnotation("train", step_num=power):
            value, weights = step(weights, jnp.ones((1 << power, 1024)))
        value.block_until_ready()
        time.sleep(0.2)


def hold(gib_left):
    """Another process that leaves so much of the device, until it is killed."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    taken = torch.empty(int(free - gib_left * GIB), dtype=torch.uint8, device="cuda")
    print(os.getpid(), flush=True)
    time.sleep(300)
    del taken


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(float(sys.argv[2]))
    else:
        globals()[f"job_{sys.argv[1]}"]()
