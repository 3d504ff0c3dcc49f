"""Out-of-memory errors inside `brimful.torch.Step` lose nothing.

A child process trains under a limit of its address space. At chosen moments (in forward, in backward, before the optimizer's step and in
the middle of it) a mapping takes the memory that is left, so that PyTorch's own allocator fails. Then the same steps are run without
failures, with the sizes that the first run ended up with: everything must be equal bit by bit. Where the memory is back at the second
try, no size changes: everything must equal a plain loop of PyTorch's.
"""

import copy
import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
resource = pytest.importorskip("resource")

FAILURES, PASSING = 60, 16
#: Enough for Python itself, less than any tensor of the job.
LEFT_BYTES = 3 << 19
#: The least that must be refused: less than any tensor that the steps of the plan ask for where they are to fail.
REFUSED_BYTES = LEFT_BYTES + (1 << 18)
ROWS, FEATURES, HIDDEN = 96, 48, 8192


class Memory:
    """Takes the memory away, and gives it back."""

    def __init__(self, extra_bytes):
        self.limit = self.used() + extra_bytes
        resource.setrlimit(resource.RLIMIT_AS, (self.limit, self.limit))
        self.hog = None
        self.pieces = []
        self.c = ctypes.CDLL(None)
        self.c.malloc.restype, self.c.malloc.argtypes, self.c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

    @staticmethod
    def used():
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

    def take(self):
        import mmap

        if self.hog is None:
            self.hog = mmap.mmap(-1, self.limit - self.used() - LEFT_BYTES)
            # What the C library has kept of freed memory needs no system: a tensor may fit into it, so it is taken, too.
            while piece := self.c.malloc(REFUSED_BYTES):
                self.pieces.append(piece)

    def give_back(self):
        if self.hog is not None:
            while self.pieces:
                self.c.free(self.pieces.pop())
            self.hog.close()
            self.hog = None


def build(torch, moment):
    """A job with everything that a step changes; `moment` is called at every place where memory may run out."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN),
        torch.nn.BatchNorm1d(HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(HIDDEN, FEATURES),
    ).double()

    class Adam(torch.optim.Adam):
        """Two groups: while the second is prepared, the first has been updated."""

        def _init_group(self, group, *lists):
            if group is self.param_groups[1]:
                moment("within step")
            return super()._init_group(group, *lists)

    groups = [{"params": list(model[:2].parameters())}, {"params": list(model[4].parameters()), "lr": 2e-3}]
    optimizer = Adam(groups, lr=1e-3, amsgrad=True)
    model.register_forward_pre_hook(lambda *_: moment("start"))
    model[1].register_forward_hook(lambda *_: moment("forward"))
    model[3].register_forward_hook(lambda module, inputs, output: output.register_hook(lambda gradient: moment("backward")) and None)
    optimizer.register_step_pre_hook(lambda *_: moment("before step"))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
    return model, optimizer, scheduler, scaler


def batch_of(torch, index):
    generator = torch.Generator().manual_seed(1000 + index)
    return torch.randn(ROWS, FEATURES, generator=generator).double(), torch.randint(0, FEATURES, (ROWS,), generator=generator)


def plan_of_failures(count):
    """For each step: samples at a time, and where it fails, if it does; two failures in some."""
    import random

    rng = random.Random(7)
    moments = ["forward", "backward", "before step", "within step"]
    steps, failures = [(ROWS, ["within step", "within step"])], 2  # at the step that creates the optimizer's state
    while failures < count:
        size = rng.choice([ROWS, 48, 32])
        chosen = [rng.choice(moments) for _ in range(rng.choice([0, 1, 1, 1, 2]))]
        # With a quarter of the samples the tensors of forward and backward are too small to fail.
        chosen[1:] = [name if size == ROWS else rng.choice(moments[2:]) for name in chosen[1:]]
        steps.append((size, chosen))
        failures += len(chosen)
    return steps


def plan_of_passing_failures(count):
    """One failure in most steps, each kind in turn; None leaves the size to the step."""
    moments = ["within step", "forward", "backward", "before step"]
    return [(None, [moments[index % 4]] if index % 3 != 2 else []) for index in range(count)]


def plain_loop(count):
    """The same training as everyone writes it, without `Step`."""
    import torch

    torch.set_num_threads(1)
    model, optimizer, scheduler, scaler = build(torch, lambda name: None)
    loss, losses = torch.nn.CrossEntropyLoss(), []
    for index in range(count):
        x, y = batch_of(torch, index)
        optimizer.zero_grad(set_to_none=True)
        value = loss(model(x), y)
        scaler.scale(value).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        losses.append(value.item())
    kept = {"weights": list(model.state_dict().values()), "optimizer": optimizer.state_dict(), "random": [torch.get_rng_state()]}
    return losses, {**kept, "scheduler": scheduler.state_dict(), "scaler": scaler.state_dict()}


def train(steps, sizes=None):
    """Losses, sizes and the state at the end; with failures, or with given sizes and none."""
    import random

    import numpy
    import torch
    from brimful.fitting import lines, sizing
    from brimful.torch import Step, budget

    torch.set_num_threads(1)
    random.seed(1)
    numpy.random.seed(1)
    waiting, seen, grown, begun = [], [], [], []
    memory = Memory(2 << 30) if sizes is None else None

    def moment(name):
        if memory is None or not model.training:
            return
        if name == "start":
            if memory.hog is not None:
                memory.give_back()
                # After a failure no more is held than before the attempt.
                grown.append(memory.used() - begun[0])
            elif not begun:
                begun.append(memory.used())
        elif waiting and name == waiting[0]:
            seen.append(waiting.pop(0))
            memory.take()

    model, optimizer, scheduler, scaler = build(torch, moment)
    budget.propose = lambda *_: budget.Proposal(ROWS if sizes is None else sizes[0], 1 << 40)
    step = Step(model, torch.nn.CrossEntropyLoss(), optimizer, clip=1.0, scaler=scaler, scheduler=scheduler)

    def state_of():
        drawn = [torch.get_rng_state(), torch.tensor(random.getstate()[1]), torch.tensor(numpy.random.get_state()[1].astype("int64"))]
        kept = {"weights": list(model.state_dict().values()), "optimizer": optimizer.state_dict(), "random": drawn}
        return copy.deepcopy({**kept, "scheduler": scheduler.state_dict(), "scaler": scaler.state_dict()})

    losses, used = [], []
    with lines.quiet():
        for index, (size, moments) in enumerate(steps):
            waiting[:] = moments
            begun.clear()
            size = size if sizes is None else sizes[index]
            for bucket in step._sizes if size is not None else ():
                step._sizes[bucket] = sizing.MicroBatch(ROWS, size)
            if index == len(steps) - 1:
                earlier = state_of()
            losses.append(step(batch_of(torch, index)))
            used.append(step.size)
    result = {"losses": losses, "sizes": used, "seen": seen, "grown": grown, "failures": step.failures, "steps": step.steps}
    return {**result, "state": state_of(), "earlier": earlier}


def differences(left, right, path=""):
    """Paths at which two states differ by a single bit."""
    import torch

    if isinstance(left, torch.Tensor):
        return [] if torch.equal(left, right) else [path]
    if isinstance(left, dict):
        keys = [path] if list(left) != list(right) else []
        return keys + [found for key in left for found in differences(left[key], right[key], f"{path}/{key}")]
    if isinstance(left, (list, tuple)):
        lengths = [path] if len(left) != len(right) else []
        return lengths + [found for index, pair in enumerate(zip(left, right)) for found in differences(*pair, f"{path}/{index}")]
    return [] if left == right else [path]


def child(folder):
    import torch

    mode, file = sys.argv[2], Path(folder) / "failing.pt"
    if mode == "passing":
        failing = train(plan_of_passing_failures(PASSING))
        losses, state = plain_loop(PASSING)
        failing["state"]["random"] = failing["state"]["random"][:1]
        result = {key: failing[key] for key in ("seen", "sizes", "failures", "steps")}
        print(json.dumps({**result, "losses": failing["losses"] == losses, "differ": differences(failing["state"], state)}))
        return
    steps = plan_of_failures(FAILURES)
    if mode == "failing":
        torch.save(train(steps), file)
        return
    failing = torch.load(file, weights_only=False)
    plain = train(steps, failing["sizes"])
    result = {key: failing[key] for key in ("seen", "grown", "failures", "steps")}
    result |= {"plain_failures": plain["failures"], "plain_steps": plain["steps"], "asked": sum(len(moments) for _, moments in steps)}
    result["losses"] = failing["losses"] == plain["losses"]
    result["differ"] = differences(failing["state"], plain["state"])
    # The comparison itself can fail: after one step less the states differ.
    result["one_step_less"] = differences(failing["state"], plain["earlier"])
    print(json.dumps(result))


def run(mode, folder):
    # Freed blocks go back to the system at once, so that the limit decides about every large tensor.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072", "BRIMFUL_CACHE": str(folder / mode), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(folder), mode]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space as Linux does")
def test_real_failures_lose_nothing(tmp_path):
    failing = run("failing", tmp_path)
    assert failing.returncode == 0, failing.stderr[-3000:]
    compared = run("compare", tmp_path)
    assert compared.returncode == 0, compared.stderr[-3000:]
    result = json.loads(compared.stdout.splitlines()[-1])
    assert result["failures"] == len(result["seen"]) == result["asked"] >= FAILURES
    assert set(result["seen"]) == {"forward", "backward", "before step", "within step"}
    assert result["plain_failures"] == 0 and result["plain_steps"] == result["steps"]
    assert result["losses"] and result["differ"] == []
    assert result["one_step_less"] != []
    # The memory is back: less than the smallest large tensor is held after a failure. The first step loads code, too.
    assert len(result["grown"]) == result["failures"] and max(result["grown"][2:]) < LEFT_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space as Linux does")
def test_where_the_memory_is_back_nothing_differs_from_a_plain_loop(tmp_path):
    ran = run("passing", tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    result = json.loads(ran.stdout.splitlines()[-1])
    assert result["failures"] == len(result["seen"]) == 11 and result["steps"] == PASSING
    assert set(result["seen"]) == {"forward", "backward", "before step", "within step"}
    assert result["sizes"] == [ROWS] * PASSING
    assert result["losses"] and result["differ"] == []


if __name__ == "__main__":
    child(sys.argv[1])
