"""What the agent costs a training step.

In: nothing, or the number of rounds and names of jobs. Out: one table. For each job two processes, one with the agent and one without, train in turns,
a block of steps at a time, so that whatever else the machine does falls on both. Per block: the process's CPU time, all threads, by step; on a GPU,
where there is one, the time on the clock until the GPU is done, since PyTorch spins while it waits.
`more` is the median over rounds of the difference of the two blocks of a round, `spread` half the range between its quartiles: on a
machine that does other things the second is larger than what is looked for. So the agent's own functions are timed as well, while
blocks train: `own` is a step without a message, then what a message adds, and `together` their share of a step when steps follow each
other without a break.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROUNDS = 60
OWN_BLOCKS = 8
#: The agent holds steps back for so long.
BETWEEN_MESSAGES_US = 50_000
BOOTSTRAP = Path(__file__).parent.parent / "python" / "brimful" / "_bootstrap"
JOBS = {
    "torch": "PyTorch loop, DataLoader",
    "tensorflow": "Keras fit, TensorFlow",
    "jax": "Keras fit, JAX",
    "cuda": "PyTorch loop on a GPU",
}


def torch_block():
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(320, 320) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(TensorDataset(torch.randn(64 * 50, 320)), batch_size=64)

    def block() -> int:
        for (rows,) in loader:
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
        return 50

    return block


def cuda_block():
    """Steps of some two milliseconds, most of which the GPU is busy for."""
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    rows = torch.randn(512, 2048, device="cuda")

    def block() -> int:
        for _ in range(300):
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
        torch.cuda.synchronize()
        return 300

    return block


def keras_block():
    import keras
    import numpy

    model = keras.Sequential([keras.layers.Input((320,)), *[keras.layers.Dense(320) for _ in range(4)]])
    model.compile("sgd", "mse")
    rows = numpy.random.rand(64 * 150, 320).astype("float32")

    def block() -> int:
        model.fit(rows, rows, batch_size=64, verbose=0)
        return 150

    return block


def worker(job: str) -> None:
    """Trains a block for each line of standard input, and says its CPU time by step in microseconds."""
    block = {"torch": torch_block, "cuda": cuda_block}.get(job, keras_block)()
    clock = time.perf_counter_ns if job == "cuda" else time.process_time_ns
    block()
    for _ in sys.stdin:
        began = clock()
        steps = block()
        print((clock() - began) / steps / 1000, flush=True)
    module = sys.modules.get("brimful.agent.progress")
    print(*(own_time_us(module.progress, block) if module else (0.0, 0.0)), flush=True)


def own_time_us(progress, block) -> tuple[float, float]:
    """The CPU time inside the agent's functions while blocks train: of a step without a message, and of a message; medians."""
    clock = time.thread_time_ns
    quiet, loud, waits = [], [], []

    def timed(function, is_step):
        def inside(*args):
            sent = progress._sent_step
            clock()  # The second look is a warm one.
            began = clock()
            function(*args)
            took = clock() - began
            (waits if not is_step else quiet if sent == progress._sent_step else loud).append(took)

        return inside

    if "keras" in sys.modules:
        progress.reached = timed(progress.reached, True)
    else:
        hooks = sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks
        hooks.update({number: timed(hook, True) for number, hook in hooks.items()})
    progress.waited = timed(progress.waited, False)
    for _ in range(OWN_BLOCKS):
        block()
    readings = [clock() for _ in range(1001)]
    clock_ns = (readings[-1] - readings[0]) / 1000
    step, message, wait = ((statistics.median(times) - clock_ns) / 1000 if times else 0.0 for times in (quiet, loud, waits))
    return step + wait, message - step


class Worker:
    def __init__(self, job: str, path: str | None) -> None:
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": job, "OMP_NUM_THREADS": "1"}
        quiet |= {} if job == "cuda" else {"CUDA_VISIBLE_DEVICES": "-1"}
        run = {} if path is None else {"PYTHONPATH": str(BOOTSTRAP), "BRIMFUL_RUN": json.dumps({"socket": path, "v": 1})}
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, __file__, "--worker", job]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, env={**kept, **quiet, **run}, text=True, **pipes)

    def block(self) -> float:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> list[float]:
        self.process.stdin.close()
        return [float(text) for text in self.process.stdout.readline().split()]


def measure(job: str, path: str, rounds: int) -> tuple[list[float], list[float], list[float]]:
    workers = [Worker(job, None), Worker(job, path)]
    for each in workers:
        each.block()
    pairs = []
    for number in range(rounds):
        order = workers if number % 2 else workers[::-1]
        times = {id(each): each.block() for each in order}
        pairs.append([times[id(each)] for each in workers])
    own = [each.end() for each in workers][1]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs], own


def main(rounds: int, jobs: list[str]) -> None:
    path = os.path.join(tempfile.mkdtemp(prefix="brimful-"), "agent")
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ear.bind(path)

    def hear() -> None:
        while True:
            ear.recv(5000)

    threading.Thread(target=hear, daemon=True).start()
    print("CPU time, µs per step")
    print(f"{'job':<26}{'without':>9}{'with':>9}{'more':>8}{'spread':>8}{'own: step':>11}{'message':>9}{'together':>10}")
    for job in jobs:
        name = JOBS[job]
        without, within, (step, message) = measure(job, path, rounds)
        more = [after - before for before, after in zip(without, within)]
        low, middle, high = statistics.quantiles(more, n=4)
        plain = statistics.median(without)
        together = (step + message * plain / BETWEEN_MESSAGES_US) / plain
        times = f"{plain:>9.0f}{statistics.median(within):>9.0f}{middle:>8.0f}{(high - low) / 2:>8.0f}"
        print(f"{name:<26}{times}{step:>11.1f}{message:>9.1f}{together:>10.2%}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2])
    else:
        named = [job for job in sys.argv[2:] if job in JOBS]
        main(
            int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS, named or [job for job in JOBS if job != "cuda" or shutil.which("nvidia-smi")]
        )
