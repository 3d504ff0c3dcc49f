"""Checks `brimful.torch.Step` on a real GPU, in less than six minutes.

    python tools/check_torch_step_gpu.py RESULTS.jsonl [--only failures,sizes,cost,gradients]

Out: one JSON line for each finding, written as soon as it is there; the last says what failed its bound. `failures`: 100 real
out-of-memory errors in forward, backward and the optimizer. Where the memory is back at the second try, everything must equal a plain
loop of PyTorch's; where it is not, a run without failures that takes the same sizes. Each reference runs twice: how far two runs without
failures are apart is the noise floor. `sizes`: the micro-batch chosen under a limit, against the largest that really works. `cost`: times
beside a plain loop. `gradients`: against the full batch's.
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

import torch  # noqa: E402
from brimful.fitting import lines, sizing  # noqa: E402
from brimful.torch import Step, budget  # noqa: E402
from brimful.torch.step import UNVERIFIED  # noqa: E402
from torch import nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
import bench_torch_step  # noqa: E402
from torch_step_models import MODELS  # noqa: E402

DEVICE = torch.device("cuda:0")
FAILURES, PASSING, ROWS, FEATURES, HIDDEN = 100, 50, 96, 256, 16384
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


def held_bytes() -> int:
    """What tensors hold, without the workspaces of cuBLAS, which come and go."""
    torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_allocated()


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


def batch_of(index: int) -> tuple:
    generator = torch.Generator().manual_seed(1000 + index)
    x = torch.randn(ROWS, FEATURES, generator=generator).double().to(DEVICE)
    return x, torch.randint(0, FEATURES, (ROWS,), generator=generator).to(DEVICE)


def fresh_cache() -> None:
    """Nothing that an earlier run has learnt decides about the sizes of the next."""
    os.environ["BRIMFUL_CACHE"] = tempfile.mkdtemp()


def state_of(model, optimizer, scheduler, scaler) -> dict:
    kept = {"weights": list(model.state_dict().values()), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    return copy.deepcopy({**kept, "scaler": scaler.state_dict(), "random": [torch.get_rng_state(), torch.cuda.get_rng_state(DEVICE)]})


def plain(count: int) -> dict:
    """The same training as everyone writes it, without `Step`."""
    model, optimizer, scheduler, scaler = job(lambda name: None)
    loss, losses = nn.CrossEntropyLoss(), []
    for index in range(count):
        x, y = batch_of(index)
        optimizer.zero_grad(set_to_none=True)
        value = loss(model(x), y)
        scaler.scale(value).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        losses.append(value.item())
    return {"losses": losses, "state": state_of(model, optimizer, scheduler, scaler), "sizes": [ROWS] * count}


def train(steps, sizes=None, until=None, failures=FAILURES):
    """Losses, sizes and the state at the end; with failures, or with given sizes and none. A size of None leaves it to the step."""
    fresh_cache()
    hog, waiting, seen, grown, begun = Hog(), [], [], [], []

    def moment(name):
        if sizes is not None or not model.training:
            return
        if name == "start":
            if hog.blocks is not None:
                hog.give_back()
                grown.append(held_bytes() - begun[0])
            elif not begun:
                begun.append(held_bytes())
        elif waiting and name == waiting[0]:
            seen.append(waiting.pop(0))
            hog.take()

    model, optimizer, scheduler, scaler = job(moment)
    planned, budget.propose = budget.propose, lambda *_: budget.Proposal(ROWS if sizes is None else sizes[0], 1 << 40)
    step = Step(model, nn.CrossEntropyLoss(), optimizer, clip=1.0, scaler=scaler, scheduler=scheduler)
    losses, used = [], []
    try:
        for index, (size, moments) in enumerate(steps):
            if until is not None and (time.monotonic() > until or step.failures >= failures):
                break
            hog.give_back()  # where nothing large was asked for any more
            waiting[:] = moments
            begun.clear()
            for bucket in step._sizes:
                if sizes is not None or size is not None:
                    step._sizes[bucket] = sizing.MicroBatch(ROWS, size if sizes is None else sizes[index])
            losses.append(step(batch_of(index)))
            used.append(step.size)
    finally:
        budget.propose = planned
        hog.give_back()
    result = {"losses": losses, "sizes": used, "seen": seen, "grown": grown, "failures": step.failures, "steps": step.steps}
    return {**result, "state": state_of(model, optimizer, scheduler, scaler)}


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


MOMENTS = ["forward", "backward", "before step", "within step"]


def compared(results: Results, what: str, failing: dict, references: list[dict]) -> None:
    """Writes how far the run with failures and the second reference are from the first."""
    far = []
    for run in (failing, references[1]):
        lost = max(abs(left - right) / abs(right) for left, right in zip(run["losses"], references[0]["losses"]))
        far.append((difference(run["state"], references[0]["state"]), lost))
    same_sizes = failing["sizes"] == references[0]["sizes"]
    found = {"what": what, "happened": failing["failures"], "steps": failing["steps"], "same_sizes": same_sizes}
    found |= {"state_difference": far[0][0], "loss_difference": far[0][1], "noise_floor": far[1]}
    results.add("failures", same_sizes and max(far[0]) <= 1e-12, **found, injected={name: failing["seen"].count(name) for name in MOMENTS})
    held = max(failing["grown"], default=None)
    results.add("failures", held is not None and held <= 0, what=what, most_bytes_held_after_a_failure=held)


def failures(results: Results, until: float) -> None:
    rng = random.Random(7)
    # The memory is away for one try: the same size again, and what comes out is what would have without the failure.
    # Not in more steps on end than a size is repeated for: after that it is given up.
    steps = [(None, ["within step"])]
    for index in range(1, 2 * PASSING):
        steps.append((None, [rng.choice(MOMENTS)] if index % (sizing.REPEATS + 1) and rng.random() < 0.9 else []))
    passing = train(steps, until=until - 50, failures=PASSING)
    compared(results, "memory is back", passing, [plain(passing["steps"]) for _ in range(2)])

    steps, planned = [(ROWS, ["within step", "backward"])], 2
    while planned < 2 * FAILURES:  # where nothing large is asked for any more, none happens
        size = rng.choice([ROWS, 48, 32])
        chosen = [rng.choice(MOMENTS) for _ in range(rng.choice([0, 1, 1, 2]))]
        # With a quarter of the samples the tensors of forward and backward are too small to fail.
        chosen[1:] = [name if size == ROWS else rng.choice(MOMENTS[2:]) for name in chosen[1:]]
        steps.append((size, chosen))
        planned += len(chosen)
    lasting = train(steps, until=until - 20, failures=FAILURES - passing["failures"])
    compared(results, "fewer samples", lasting, [train(steps[: lasting["steps"]], lasting["sizes"]) for _ in range(2)])
    results.add("failures", passing["failures"] + lasting["failures"] >= FAILURES, happened=passing["failures"] + lasting["failures"])


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
        fresh_cache()
        step = Step(model, loss, optimizer, memory=LIMIT_BYTES)
        first, count = None, 0
        while count < 6 and time.monotonic() - began < 25:
            step(batch)
            count += 1
            first = step.size if first is None else first
        chosen, failed, why = step.size, step.failures, step.why
        went_well = max(micro.good for micro in step._sizes.values())
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
        # A step that lets go of its cache before may get further than this.
        low = max(low, went_well)
        found = {"model": name, "first": first, "chosen": chosen, "largest": low, "ratio": round(chosen / low, 3), "failures": failed}
        verified = UNVERIFIED not in why
        results.add("sizes", 0.9 <= chosen / low <= 1.0 and verified, **found, verified=verified, steps=count, seconds=round(seconds, 1))
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
                fresh_cache()
                step = Step(model, loss, torch.optim.SGD(model.parameters(), lr=0.1))
                step((x, y))
                assert step.split_steps == 1 and step.exact
                loss(twin(x), y).backward()
                largest = max(float(parameter.grad.abs().max()) for parameter in twin.parameters())
                pairs = zip(model.parameters(), twin.parameters())
                worst = max(worst, max(float((left.grad - right.grad).abs().max()) for left, right in pairs) / largest)
            results.add("gradients", worst <= bound, dtype=str(kind), worst=worst)
        budget.propose = lambda *_: budget.Proposal(1 << 20, 1 << 40)
        fresh_cache()
        model = nn.Linear(8, 3).to(DEVICE)
        before = copy.deepcopy(model)
        step = Step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1))
        x = torch.randn(6, 8, device=DEVICE)
        value = step((x, torch.full((6,), -100, device=DEVICE)))
        same = all(torch.equal(*pair) for pair in zip(model.parameters(), before.parameters()))
        after = step((x, torch.tensor([-100, -100, 1, -100, -100, 0], device=DEVICE)))
        ok = value != value and same and step.skipped == 1 and after == after
        results.add("gradients", ok, what="a batch without anything to learn, unsplit")
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
