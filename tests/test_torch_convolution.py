"""What convolutions ask of the allocator, against what cuDNN asked of it on a GPU.

In: `fixtures/torch_ops/convolutions.jsonl.gz`. Out: the order of allocations must be the recorded one for every call; the
workspaces, which only cuDNN knows, must be right in size often enough. The trees were learned from the models' calls, so the limits
for those notice changes and do not measure accuracy; the random shapes were not learned from. Needs neither PyTorch nor a GPU.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "brimful" / "torch"))  # the rules alone: the package around them needs its compiled core

from scratch import RULES, Call, Gpu, convolution  # noqa: E402

FIXTURE = ROOT / "fixtures" / "torch_ops" / "convolutions.jsonl.gz"
H200 = Gpu(capability=(9, 0), multiprocessors=132)
DESCRIPTION = re.compile(r"(\w+)\[([\d,]*)\](?:s\[([\d,]*)\])?$")
ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
MIB = 1 << 20
FREE = "f"


class Tensor:
    """Stands in for a tensor without data."""

    def __init__(self, dtype, shape, stride=None):
        self.dtype, self.shape = f"torch.{dtype}", tuple(shape)
        plain, step = [], 1
        for length in reversed(self.shape):
            plain.append(step)
            step *= max(length, 1)
        self._plain = tuple(reversed(plain))
        self._stride = self._plain if stride is None else tuple(stride)
        self._numel = step if all(self.shape) else 0

    def stride(self):
        return self._stride

    def numel(self):
        return self._numel

    def element_size(self):
        return ITEM_BYTES[self.dtype[6:]]

    def is_contiguous(self):
        return all(n == 1 or a == b for n, a, b in zip(self.shape, self._stride, self._plain))


def described(value):
    match = DESCRIPTION.match(value) if isinstance(value, str) else None
    if match is None:
        return value
    numbers = [None if part is None else [int(number) for number in part.split(",") if number] for part in match.groups()[1:]]
    return Tensor(match[1], *numbers)


def recorded():
    with gzip.open(FIXTURE, "rt") as lines:
        for line in lines:
            op, args, results, events, jobs = json.loads(line)
            results = [results] if isinstance(results, str) else results
            outputs = [tensor for tensor in map(described, results) if isinstance(tensor, Tensor)]
            yield Call(op, tuple(map(described, args)), {}, outputs, H200), events, jobs


def allocations(call):
    """The rule's allocations as (bytes, label), and its frees."""
    found = []
    for step in RULES[call.op](call).steps:
        if step[0] == "out":
            output = call.outputs[step[1]]
            found.append((output.numel() * output.element_size(), "result"))
        else:
            found.append((step[2], step[3]) if step[0] == "take" else FREE)
    return found


def workspaces(call, events):
    """Pairs of (predicted, recorded) bytes of the call's workspaces; None where the rest is not as recorded."""
    asked = []
    real = convolution.workspace_bytes

    def mark(memory, direction, problem, channels_last):
        asked.append(real(memory, direction, problem, channels_last))
        return 10**15 + len(asked)

    convolution.workspace_bytes = mark
    try:
        program = [step if step == FREE else step[0] for step in allocations(call)]
    finally:
        convolution.workspace_bytes = real
    found = align(program, events)
    return None if found is None else [(size, found.get(10**15 + number + 1, 0)) for number, size in enumerate(asked)]


def align(program, events):
    """What stands where the program has a workspace; a workspace of no bytes is not there at all."""
    if not program:
        return None if events else {}
    first = program[0]
    if first != FREE and first > 10**15:
        if len(events) > 1 and events[0] != FREE and events[1] == FREE:
            rest = align(program[2:], events[2:])
            if rest is not None:
                return {first: events[0], **rest}
        return align(program[2:], events)
    return align(program[1:], events[1:]) if events and events[0] == first else None


@pytest.fixture(scope="module")
def pairs():
    """For models and random shapes: (predicted, recorded, jobs) of each workspace."""
    found = {"models": [], "random": []}
    for call, events, jobs in recorded():
        seen = workspaces(call, events)
        assert seen is not None, (call.op, events)  # results, copies, frees and the bias's reduction are as recorded, in order
        found["random" if jobs == ["random"] else "models"] += [(*pair, jobs) for pair in seen]
    return found


def near(predicted, actual):
    return abs(predicted - actual) <= max(0.05 * actual, MIB)


@pytest.mark.parametrize("kind, least_near, most_error", [("models", 0.90, 0.05), ("random", 0.76, 0.25)])
def test_sizes(pairs, kind, least_near, most_error):
    rows = pairs[kind]
    assert len(rows) > 3000
    right = sum(near(predicted, actual) for predicted, actual, _ in rows) / len(rows)
    error = sum(abs(predicted - actual) for predicted, actual, _ in rows) / sum(actual for _, actual, _ in rows)
    print(f"{kind}: {len(rows)} workspaces, {right:.1%} within 5 % or 1 MiB, error {error:.1%} of all bytes")
    assert right >= least_near
    assert error <= most_error


def test_largest_of_each_job(pairs):
    """The largest workspace of a step matters most."""
    jobs = defaultdict(lambda: [0, 0])
    for predicted, actual, names in pairs["models"]:
        for name in names:
            jobs[name] = [max(jobs[name][0], predicted), max(jobs[name][1], actual)]
    right = sum(near(*sizes) for sizes in jobs.values()) / len(jobs)
    print(f"{len(jobs)} jobs, largest workspace within 5 % or 1 MiB in {right:.1%}")
    assert len(jobs) > 100
    assert right >= 0.85


def random_call(rng):
    dims = rng.choice([1, 2, 2, 2, 3])
    dtype = rng.choice(list(ITEM_BYTES))
    groups = rng.choice([1, 1, 1, 2, 3, 32, 100])
    c, k = (groups * rng.choice([1, 1, 2, 3, 5, 8, 64, 1000]) for _ in range(2))
    n = rng.choice([0, 1, 2, 7, 64, 1000])
    x_sizes, y_sizes, kernel = ([rng.choice([1, 2, 7, 16, 55, 300]) for _ in range(dims)] for _ in range(3))
    stride, transposed = [rng.choice([1, 2, 16]) for _ in range(dims)], rng.random() < 0.3

    def tensor(shape):
        order = list(range(len(shape)))
        kind = rng.random()
        if kind < 0.3 and len(shape) > 2:
            order = [0, *range(2, len(shape)), 1]
        elif kind < 0.4:
            rng.shuffle(order)
        steps, step = [0] * len(shape), rng.choice([1, 1, 1, 2])
        for dim in reversed(order):
            steps[dim] = 0 if kind > 0.95 else step
            step *= max(shape[dim], 1)
        return Tensor(dtype, shape, steps)

    x, y = tensor([n, c, *x_sizes]), tensor([n, k, *y_sizes])
    w = tensor([c, k // groups, *kernel] if transposed else [k, c // groups, *kernel])
    how = (stride, [0] * dims, [rng.choice([1, 1, 2])] * dims, transposed, [0] * dims, groups)
    if rng.random() < 0.5:
        return Call("aten.convolution", (x, w, None, *how), {}, [y], H200)
    mask = [rng.random() < 0.7 for _ in range(3)]
    outputs = [tensor(list(like)) for like, wanted in zip((x.shape, w.shape, (k,)), mask) if wanted]
    return Call("aten.convolution_backward", (y, x, w, [k], *how, mask), {}, outputs, H200)


def test_any_shape_has_a_bounded_answer():
    rng = random.Random(3)
    for _ in range(4000):
        call = random_call(rng)
        steps = RULES[call.op](call).steps
        assert sorted(step[1] for step in steps if step[0] == "out") == list(range(len(call.outputs)))
        taken = [step[1] for step in steps if step[0] == "take"]
        assert sorted(taken) == sorted(step[1] for step in steps if step[0] == "free")
        tensors_bytes = sum(t.numel() * t.element_size() for t in (*call.args[:3], *call.outputs) if isinstance(t, Tensor))
        for step in steps:
            if step[0] == "take" and step[3] == "workspace":
                assert 0 < step[2] <= 16 * tensors_bytes + 65 * MIB


def test_sizes_are_affine_in_the_batch():
    """A second capture with another batch keeps the first one's forms, although cuDNN might choose another one."""
    rng, changed = random.Random(5), 0
    for _ in range(300):
        c, k, side, kernel = rng.choice([3, 16, 64, 256]), rng.choice([16, 64, 512]), rng.choice([7, 14, 56]), rng.choice([1, 3, 7])
        memory, sizes, alone = {}, [], []

        def taken(call):
            return [step[0] for step in allocations(call) if step != FREE]

        for n in (1, 2, 64):
            x, w, y = (Tensor("float32", shape) for shape in ([n, c, side, side], [k, c, kernel, kernel], [n, k, side, side]))
            how = ([1, 1], [kernel // 2] * 2, [1, 1], False, [0, 0], 1)
            args, outputs = (y, x, w, None, *how, [True, True, False]), [x, w]
            sizes.append(taken(Call("aten.convolution_backward", args, {}, outputs, H200, True, memory)))
            alone.append(taken(Call("aten.convolution_backward", args, {}, outputs, H200, True, {})))
        one, two, many = sizes
        assert len(one) == len(two) == len(many)
        assert all(a + 63 * (b - a) == c for a, b, c in zip(one, two, many)), (one, two, many)
        changed += alone[2] != many
    assert changed > 0  # the memory matters: alone, some of these would have chosen another form


def test_one_dim_is_two_dims_of_which_one_has_length_one():
    def events(shapes, dims):
        x, w, y = (Tensor("float32", shape) for shape in shapes)
        how = ([2] * dims, [1] * dims, [1] * dims, False, [0] * dims, 1)
        return allocations(Call("aten.convolution", (x, w, None, *how), {}, [y], H200))

    flat = events(([8, 64, 400], [128, 64, 3], [8, 128, 200]), 1)
    assert flat == events(([8, 64, 1, 400], [128, 64, 1, 3], [8, 128, 1, 200]), 2)


def test_is_quick():
    calls = [call for call, _, _ in recorded()][::20]
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for call in calls:
            call.memory.clear()
            RULES[call.op](call)
        best = min(best, (time.perf_counter() - begin) / len(calls))
    print(f"{best * 1e6:.1f} microseconds a call")
    assert best < 200e-6  # about 20 on an idle machine
