"""Rules for the scratch memory of PyTorch's CUDA kernels, against what real kernels asked of the allocator.

In: `fixtures/torch_ops/calls.jsonl.gz`, calls recorded on a GPU with their allocations. Out: for every recorded call, the rule's
allocations must be the recorded ones, in order and to the byte; a summary by op is printed. Needs neither PyTorch nor a GPU.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "brimful" / "torch"))  # the rules alone: the package around them needs its compiled core

from scratch import RULES, Call, Gpu, Program  # noqa: E402
from scratch.pointwise import item_bytes  # noqa: E402
from scratch.rnn import reserve_bytes  # noqa: E402

FIXTURE = ROOT / "fixtures" / "torch_ops" / "calls.jsonl.gz"
H200 = Gpu(capability=(9, 0), multiprocessors=132, max_threads_per_multiprocessor=2048, cudnn=(9, 19))
DESCRIPTION = re.compile(r"([a-z]+\d*)\[([\d,]*)\](?:s\[([\d,]*)\])?$")
CONSTANTS = {"True": True, "False": False, "None": None}


class Tensor:
    """Stands in for a tensor without data, made from a description such as `float32[32,64]s[1,32]`."""

    def __init__(self, dtype: str, shape: list[int], stride: list[int] | None = None):
        self.dtype = "torch." + dtype
        self.shape = tuple(shape)
        dense, step = [], 1
        for length in reversed(shape):
            dense.append(step)
            step *= max(length, 1)
        self._dense = tuple(reversed(dense))
        self._stride = self._dense if stride is None else tuple(stride)

    def stride(self):
        return self._stride

    def dim(self):
        return len(self.shape)

    def numel(self):
        count = 1
        for length in self.shape:
            count *= length
        return count

    def element_size(self):
        return item_bytes(self.dtype[6:])

    def is_contiguous(self):
        return self.numel() == 0 or all(n == 1 or a == b for n, a, b in zip(self.shape, self._stride, self._dense))


def parse(value):
    if isinstance(value, list):
        return [parse(item) for item in value]
    match = DESCRIPTION.match(value) if isinstance(value, str) else None
    if not match:
        return value
    numbers = [[int(n) for n in group.split(",") if n] if group is not None else None for group in match.groups()[1:]]
    return Tensor(match.group(1), numbers[0], numbers[1])


def tensors(value):
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def predicted(call: Call) -> list[tuple[int, bool]]:
    """Bytes of allocations in order, 0 for a free; and whether it is something that a library keeps."""
    op_rule = RULES.get(call.op)
    if op_rule is None:
        program = Program()
        program.outs(call)
    else:
        program = op_rule(call)
    events, taken = [], set()
    for step in program.steps:
        if step[0] == "out":
            output = call.outputs[step[1]]
            events.append((output.numel() * output.element_size(), False))
            if events[-1][0] == 0:
                events.pop()
        elif step[0] == "take":
            assert step[2] > 0
            taken.add(step[1])
            events.append((step[2], False))
        elif step[0] == "free":
            taken.remove(step[1])
            events.append((0, False))
        else:
            events.append((step[2], True))
    return events + [(0, False)] * len(taken)


def agrees(recorded: list[int], events: list[tuple[int, bool]]) -> bool:
    """Whether the events are the recorded ones; what a library keeps may have been there already."""
    at = 0
    for size, kept in events:
        if at < len(recorded) and recorded[at] == size:
            at += 1
        elif not kept:
            return False
    return at == len(recorded)


def parse_kwargs(text: str) -> dict:
    """Keyword arguments were recorded as the text of a dict; none of them is a tensor."""
    return {key: CONSTANTS.get(value, value) for key, value in re.findall(r"'(\w+)': ([^,}(]+)", text)}


def make_call(name: str, args, kwargs, results) -> Call:
    op = name.rsplit(".", 1)[0]
    return Call(op, tuple(parse(args)), parse_kwargs(kwargs), list(tensors(parse(results))), H200)


def load():
    with gzip.open(FIXTURE, "rt") as lines:
        for line in lines:
            yield json.loads(line)


def test_recorded_calls():
    totals = defaultdict(lambda: [0, 0])
    wrong = []
    for count, name, args, kwargs, results, recorded in load():
        call = make_call(name, args, kwargs, results)
        events = predicted(call)
        good = agrees(recorded, events)
        totals[call.op][0] += count
        totals[call.op][1] += count * good
        if not good:
            wrong.append(f"{name} {args} {kwargs} -> {results}: recorded {recorded}, predicted {[size for size, _ in events]}")
    for op, (count, good) in sorted(totals.items(), key=lambda item: -item[1][0]):
        print(f"{good / count:8.2%} of {count:6} {op}{'' if op in RULES else ' (no rule)'}")
    assert not wrong, "\n".join(wrong[:20])


def test_workspaces_are_kept_for_each_thread():
    matrices = ["float32[64,32]", "float32[32,16]"]
    keys = set()
    for backward in (False, True):
        call = make_call("aten.addmm.default", ["float32[16]", *matrices], "{}", "float32[64,16]")
        call.backward = backward
        keys |= {step[1:] for step in RULES["aten.addmm"](call).steps if step[0] == "keep"}
    assert sorted(size for _, size in keys) == [1 << 20, 1 << 20, 32 << 20, 32 << 20]
    call.gpu = Gpu(capability=(8, 0), multiprocessors=108)
    assert ("keep", "cublas backward", 8519680) in RULES["aten.addmm"](call).steps


def test_reserve_of_recurrent_layers():
    reserves = 0
    for _, name, args, _, results, _ in load():
        if name.startswith("aten._cudnn_rnn."):
            call_args = parse(args)
            assert reserve_bytes(*call_args) == parse(results)[3].numel()
            reserves += 1
    assert reserves


ODD = ["float32[]", "float32[0]", "float32[1]", "float32[0,3]", "bfloat16[3,0,2]", "float32[2,3,4,5]s[0,0,0,0]", "int64[4]s[2]"]
ODD += ["float64[1,1,1,1]s[7,7,7,7]", "complex64[2,2]", "bool[5,1,3]s[1,9,5]", "float16[2,3,4,5]s[60,1,15,3]"]


UNRECORDED = {
    "aten._foreach_norm": lambda t: ([t, t], 2),
    "aten.cumprod": lambda t: (t, 0),
    "aten._scaled_dot_product_flash_attention": lambda t: (t, t, t, 0.0),
    "aten._scaled_dot_product_flash_attention_backward": lambda t: (t, t, t, t, t, t),
    "aten._fused_rms_norm_backward": lambda t: (t, t, [2], t, t, [True, True]),
    "aten._unsafe_index": lambda t: (t, [t, None, t]),
    "aten._unsafe_index_put": lambda t: (t, [t, None, t], t, True),
    "aten.index_put_": lambda t: (t, [t, None, t], t, True),
    "aten._index_put_impl_": lambda t: (t, [t, None, t], t, True),
    "aten.roll": lambda t: (t, [1, 1], [0, 1]),
}


@pytest.mark.parametrize("op", sorted(op for op in RULES if "convolution" not in op))
def test_any_shape_is_accepted(op, first_recorded):
    def replaced(value, tensor):
        if isinstance(value, Tensor):
            return tensor
        return [replaced(item, tensor) for item in value] if isinstance(value, list) else value

    for text in ODD:
        tensor = parse(text)
        if op in UNRECORDED:
            args = UNRECORDED[op](tensor)
        elif op in first_recorded:
            args = tuple(replaced(value, tensor) for value in parse(first_recorded[op]))
        else:
            args = (tensor, tensor, tensor) if re.search("mm|mv|dot|loss", op) else (tensor, 0)
        for outputs in ([tensor, tensor, tensor], [tensor], []):
            for program_args in (args, args[:1], ()):
                predicted(Call(op, program_args, {}, outputs, H200))


@pytest.fixture(scope="module")
def first_recorded():
    recorded = {}
    for _, name, args, *_ in load():
        recorded.setdefault(name.rsplit(".", 1)[0], args)
    return recorded
