"""Checks `brimful.torch.Step` on a real GPU, in less than six minutes.

    python tools/check_torch_step_gpu.py RESULTS.jsonl [--only failures,sizes,cost,gradients]

Out: one JSON line for each finding, written as soon as it is there; the last says what failed its bound. `failures`: 100 real
out-of-memory errors in forward, backward and the optimizer, after which everything must equal a run without any. `sizes`: the micro-batch
chosen under a limit, against the largest that really works. `cost`: times beside a plain loop. `gradients`: against the full batch's.
"""

from __future__ import annotations

import copy
import json
import os
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ["BRIMFUL_CACHE"] = tempfile.mkdtemp()

import torch  # noqa: E402
from brimful.fitting import lines, sizing  # noqa: E402
from brimful.torch import Step, budget  # noqa: E402
from torch import nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
import bench_torch_step  # noqa: E402
from torch_step_models import MODELS  # noqa: E402

DEVICE = torch.device("cuda:0")
FAILURES, ROWS, FEATURES, HIDDEN = 100, 96, 256, 16384
LIMIT_BYTES = 8 << 30
SECONDS = {"failures": 90, "sizes": 150, "cost": 60, "gradients": 30}


class Results:
    """Writes each finding at once."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "a", buffering=1)
        self.bad: list[str] = []

    def add(self, section: str, ok: bool | None = None, **values) -> None:
        self.file.write(json.dumps({"section": section, **({} if ok is None else {"ok": ok}), **values}) + "\n")
        print(section, "" if ok is None else ("ok" if ok else "NOT OK"), values, flush=True)
        if ok is False:
            self.bad.append(f"{section}: {values}")


class Hog:
    """Takes all the memory that the allocator could still give out, and gives it back."""

    def __init__(self) -> None:
        self.blocks: list[torch.Tensor] | None = None

    def take(self) -> None:
        torch.cuda.empty_cache()
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
        self.blocks = []
        for power in range(30, 20, -1):
            while True:
                try:
                    self.blocks.append(torch.empty(1 << power, dtype=torch.uint8, device=DEVICE))
                except torch.OutOfMemoryError:
                    break

    def give_back(self) -> None:
        self.blocks = None
        torch.cuda.set_per_process_memory_fraction(1.0)


def job(moment):
    """Everything that a step changes, with a moment wherever memory may run out."""
    torch.manual_seed(0)
    layers = [nn.Linear(FEATURES, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Dropout(0.2), nn.Linear(HIDDEN, FEATURES)]
    model = nn.Sequential(*layers).to(DEVICE, torch.float64)

    class Adam(torch.optim.Adam):
        def _init_group(self, group, *rest):
            if group is self.param_groups[1]:
                moment("within step")
            return super()._init_group(group, *rest)

    def watch_backward(module, inputs, output):
        if output.requires_grad:
            output.register_hook(lambda gradient: moment("backward"))

    optimizer = Adam([{"params": list(model[:2].parameters())}, {"params": list(model[4].parameters()), "lr": 2e-3}], lr=1e-3)
    model.register_forward_pre_hook(lambda *_: moment("start"))
    model[1].register_forward_hook(lambda *_: moment("forward"))
    model[3].register_forward_hook(watch_backward)
    optimizer.register_step_pre_hook(lambda *_: moment("before step"))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50)
    return model, optimizer, scheduler, torch.amp.GradScaler("cuda", init_scale=2.0**10, growth_interval=3)


def train(steps, sizes=None, until=None):
    """Losses, sizes and the state at the end; with failures, or with given sizes and none."""
    hog, waiting, seen, grown, begun = Hog(), [], [], [], []

    def moment(name):
        if sizes is not None or not model.training:
            return
        if name == "start":
            if hog.blocks is not None:
                hog.give_back()
                grown.append(torch.cuda.memory_allocated() - begun[0])
            elif not begun:
                begun.append(torch.cuda.memory_allocated())
        elif waiting and name == waiting[0]:
            seen.append(waiting.pop(0))
            hog.take()

    model, optimizer, scheduler, scaler = job(moment)
    planned, budget.propose = budget.propose, lambda *_: budget.Proposal(ROWS if sizes is None else sizes[0], 1 << 40)
    step = Step(model, nn.CrossEntropyLoss(), optimizer, clip=1.0, scaler=scaler, scheduler=scheduler)
    losses, used = [], []
    try:
        for index, (size, moments) in enumerate(steps):
            if until is not None and (time.monotonic() > until or step.failures >= FAILURES):
                break
            hog.give_back()  # where nothing large was asked for any more
            waiting[:] = moments
            begun.clear()
            for bucket in step._sizes:
                step._sizes[bucket] = sizing.MicroBatch(ROWS, size if sizes is None else sizes[index])
            generator = torch.Generator().manual_seed(1000 + index)
            x = torch.randn(ROWS, FEATURES, generator=generator).double().to(DEVICE)
            y = torch.randint(0, FEATURES, (ROWS,), generator=generator).to(DEVICE)
            losses.append(step((x, y)))
            used.append(step.size)
    finally:
        budget.propose = planned
        hog.give_back()
    kept = {"weights": list(model.state_dict().values()), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    kept |= {"scaler": scaler.state_dict(), "random": [torch.get_rng_state(), torch.cuda.get_rng_state(DEVICE)]}
    result = {"losses": losses, "sizes": used, "seen": seen, "grown": grown, "failures": step.failures, "steps": step.steps}
    return {**result, "state": copy.deepcopy(kept)}


def difference(left, right) -> float:
    """The largest relative difference between two states; infinite where their forms differ."""
    if isinstance(left, torch.Tensor):
        if left.shape != right.shape:
            return float("inf")
        if torch.equal(left, right):
            return 0.0
        scale = float(right.double().abs().max()) or 1.0
        return float((left.double() - right.double()).abs().max()) / scale
    if isinstance(left, dict):
        return float("inf") if list(left) != list(right) else max((difference(left[key], right[key]) for key in left), default=0.0)
    if isinstance(left, (list, tuple)):
        return float("inf") if len(left) != len(right) else max((difference(*pair) for pair in zip(left, right)), default=0.0)
    return 0.0 if left == right else float("inf")


def failures(results: Results, until: float) -> None:
    rng = random.Random(7)
    moments = ["forward", "backward", "before step", "within step"]
    steps, planned = [(ROWS, ["within step", "backward"])], 2
    while planned < 2 * FAILURES:  # where nothing large is asked for any more, none happens
        size = rng.choice([ROWS, 48, 32])
        chosen = [rng.choice(moments) for _ in range(rng.choice([0, 1, 1, 2]))]
        # With a quarter of the samples the tensors of forward and backward are too small to fail.
        chosen[1:] = [name if size == ROWS else rng.choice(moments[2:]) for name in chosen[1:]]
        steps.append((size, chosen))
        planned += len(chosen)
    failing = train(steps, until=until - 20)
    plain = train(steps[: failing["steps"]], failing["sizes"])
    states = difference(failing["state"], plain["state"])
    counts = {name: failing["seen"].count(name) for name in moments}
    lost = max(abs(left - right) / abs(right) for left, right in zip(failing["losses"], plain["losses"]))
    results.add("failures", failing["failures"] >= FAILURES, happened=failing["failures"], steps=failing["steps"], injected=counts)
    results.add("failures", states <= 1e-12 and lost <= 1e-12, state_difference=states, loss_difference=lost)
    results.add("failures", max(failing["grown"], default=0) <= 0, most_bytes_held_after_a_failure=max(failing["grown"], default=None))


def works(model, optimizer, loss, batch, size: int) -> bool:
    """Whether two micro-batches of this size and an update fit, tried for real."""
    text = None
    torch.cuda.empty_cache()
    try:
        optimizer.zero_grad(set_to_none=True)
        for _ in range(2):
            part = tuple(tensor[:size].to(DEVICE) for tensor in batch)
            (loss(model(part[0]), part[1]) / 2).backward()
        optimizer.step()
        return True
    except torch.OutOfMemoryError as error:
        error.__traceback__ = None
        text = str(error)
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    return text is None


def sizes(results: Results, until: float) -> None:
    total = torch.cuda.mem_get_info()[1]
    for name, (make, sample, rows) in MODELS.items():
        if time.monotonic() > until - 30:
            results.add("sizes", False, model=name, why="no time left")
            continue
        torch.manual_seed(0)
        torch.cuda.empty_cache()
        batch, loss = sample(rows), nn.CrossEntropyLoss()
        model = make().to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
        began = time.monotonic()
        step = Step(model, loss, optimizer, memory=LIMIT_BYTES)
        first, count = None, 0
        while count < 6 and time.monotonic() - began < 25:
            step(batch)
            count += 1
            first = step.size if first is None else first
        chosen, failed = step.size, step.failures
        seconds = time.monotonic() - began
        del step
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(LIMIT_BYTES / total)
        low, high = 1, rows
        while low < high and time.monotonic() < until:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if works(model, optimizer, loss, batch, middle) else (low, middle - 1)
        torch.cuda.set_per_process_memory_fraction(1.0)
        found = {"model": name, "first": first, "chosen": chosen, "largest": low, "ratio": round(chosen / low, 3), "failures": failed}
        results.add("sizes", 0.9 <= chosen / low <= 1.0, **found, steps=count, seconds=round(seconds, 1))
        del model, optimizer


def cost(results: Results, until: float) -> None:
    for found in bench_torch_step.measure(15):
        bound = {"unsplit": 1.02, "split in 4": 1.10}.get(found["what"])
        results.add("cost", None if bound is None else found["ratio"] <= bound, **found)


def gradients(results: Results, until: float) -> None:
    planned = budget.propose
    try:
        for kind, bound in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
            worst = 0.0
            for seed in range(12):
                rng = random.Random(seed)
                torch.manual_seed(seed)
                rows, width = rng.randint(9, 90), rng.choice([16, 64, 200])
                model = nn.Sequential(nn.Linear(32, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 11)).to(DEVICE, kind)
                twin = copy.deepcopy(model)
                x, y = torch.randn(rows, 32, device=DEVICE, dtype=kind), torch.randint(0, 11, (rows,), device=DEVICE)
                y[torch.rand(rows, device=DEVICE) < 0.3] = -100
                y[0] = 1
                loss = nn.CrossEntropyLoss(weight=torch.rand(11, device=DEVICE, dtype=kind) + 0.1)
                size = rng.randint(1, rows - 1)
                budget.propose = lambda *_, size=size: budget.Proposal(size, 1 << 40)
                Step(model, loss, torch.optim.SGD(model.parameters(), lr=0.1))((x, y))
                loss(twin(x), y).backward()
                largest = max(float(parameter.grad.abs().max()) for parameter in twin.parameters())
                pairs = zip(model.parameters(), twin.parameters())
                worst = max(worst, max(float((left.grad - right.grad).abs().max()) for left, right in pairs) / largest)
            results.add("gradients", worst <= bound, dtype=str(kind), worst=worst)
    finally:
        budget.propose = planned


def main() -> int:
    results = Results(sys.argv[1])
    wanted = sys.argv[3].split(",") if len(sys.argv) > 3 and sys.argv[2] == "--only" else list(SECONDS)
    results.add("machine", torch=torch.__version__, gpu=torch.cuda.get_device_name(), total_bytes=torch.cuda.mem_get_info()[1])
    for name in ("gradients", "failures", "sizes", "cost"):
        if name not in wanted:
            continue
        began = time.monotonic()
        try:
            with lines.quiet(name != "sizes"):
                globals()[name](results, began + SECONDS[name])
        except Exception:  # the other sections are worth having
            results.add(name, False, error=traceback.format_exc()[-1500:])
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
        results.add(name, seconds=round(time.monotonic() - began, 1))
    results.add("end", not results.bad, not_ok=results.bad)
    return 1 if results.bad else 0


if __name__ == "__main__":
    sys.exit(main())
