"""Rules for recurrent layers and attention, against what real kernels asked of the allocator over many shapes.

In: `fixtures/torch_ops/kernel_grid.jsonl.gz`: random layers and calls on a GPU, op by op, with the allocations in each. Out: the
rules must give the recorded steps in order and to the byte, but for the workspaces of two recurrent layers, which are close;
with PyTorch, the capture must choose the recorded kernels and ask for the recorded sizes. Shares are printed. Needs no GPU.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from scratch import RULES, Call  # test_torch_scratch put it on the path
from scratch.rnn import reserve_bytes
from test_torch_scratch import H200, Tensor

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "torch_ops" / "kernel_grid.jsonl.gz"
MODES = {"RNN": 1, "LSTM": 2, "GRU": 3}
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
ATTENTION = "aten._scaled_dot_product_"
CUBLAS_BYTES = 32 << 20  # a library's workspace, which only the first call allocates


def load(kind: str) -> list[dict]:
    with gzip.open(FIXTURE, "rt") as lines:
        return [shape for shape in map(json.loads, lines) if shape["kind"] == kind and "ops" in shape]


def recorded(shape: dict, op: str) -> list | None:
    return next((steps for name, steps in shape["ops"] if name == op + ".default"), None)


def predicted(op: str, args: list, outputs: list) -> list:
    """The rule's steps as the recorder writes them: allocations with their bytes, and frees of the allocation with a number."""
    steps, numbers, count = [], {}, 0
    for step in RULES[op](Call(op, tuple(args), {}, outputs, H200)).steps:
        if step[0] == "out":
            size = outputs[step[1]].numel() * outputs[step[1]].element_size()
        elif step[0] == "take":
            size, numbers[step[1]] = step[2], count
        else:
            steps.append(["f", numbers[step[1]]])
            continue
        if size:
            steps.append(["a", size])
            count += 1
    return steps


def describe(shape: dict) -> str:
    return " ".join(f"{key}={value}" for key, value in shape.items() if key != "ops")


# --- recurrent layers ---


def layer_calls(shape: dict) -> list[tuple[str, list, list]]:
    """The layer's calls: op, arguments, results."""
    n, steps, inputs, hidden, layers = (shape[key] for key in ("n", "steps", "inputs", "hidden", "layers"))
    dtype, directions, gates, lstm = shape["dtype"], 2 if shape["both"] else 1, GATES[shape["mode"]], shape["mode"] == "LSTM"

    def sequence(width: int, steps_first: bool = False) -> Tensor:
        if not shape["batch_first"]:
            return Tensor(dtype, [steps, n, width])
        return Tensor(dtype, [n, steps, width], [width, n * width, 1] if steps_first else None)

    source, output, state = sequence(inputs), sequence(hidden * directions, True), Tensor(dtype, [layers * directions, n, hidden])
    weights = []
    for layer in range(layers):
        for _ in range(directions):
            wide = inputs if layer == 0 else hidden * directions
            weights += [Tensor(dtype, [gates * hidden, wide]), Tensor(dtype, [gates * hidden, hidden])]
            weights += [Tensor(dtype, [gates * hidden]) for _ in range(2)] if shape["bias"] else []
    biases = 0 if shape["bias"] else layers * directions * 2 * gates * hidden  # cuDNN's buffer has them in any case
    flat = Tensor(dtype, [sum(weight.numel() for weight in weights) + biases])
    buffer = None if dtype == "bfloat16" else flat  # PyTorch flattens no weights in bfloat16
    cell = state if lstm else None
    given = [source, weights, 4 if shape["bias"] else 2, buffer, state, cell]
    switches = [shape[key] for key in ("batch_first", "dropout", "train", "both")]
    options = [MODES[shape["mode"]], hidden, 0, layers, *switches, [], None]
    reserve = Tensor("uint8", [reserve_bytes(*given, *options)])
    made = [output, state, state if lstm else Tensor(dtype, [0]), reserve] + ([flat] if buffer is None else [])
    calls = [("aten._cudnn_rnn", given + options, made)]
    if shape["train"]:
        # The recorder's gradient was `empty_like(output)`, which keeps the strides.
        args = [*given[:3], flat, state, cell, output, output, None, None, *options, reserve, [True] * 4]
        made = [sequence(inputs, True), state] + ([state] if lstm else []) + ([flat] if shape["bias"] else weights)
        calls.append(("aten._cudnn_rnn_backward", args, made))
    return calls


def test_recurrent_layers():
    exact, count, reserves, wrong = 0, 0, 0, []
    for shape in load("rnn"):
        for op, args, made in layer_calls(shape):
            steps, real = predicted(op, args, made), recorded(shape, op)
            count += 1
            exact += steps == real
            if steps == real:
                continue
            sizes = [[size for action, size in part if action == "a"] for part in (steps, real)]
            same_order = [step for step in steps if step[0] == "f"] == [step for step in real if step[0] == "f"]
            close = all(abs(ours - theirs) <= 128 for ours, theirs in zip(*sizes))
            if not same_order or not close or len(sizes[0]) != len(sizes[1]):
                wrong.append(f"{op} {describe(shape)}: recorded {real}, predicted {steps}")
        if shape["train"]:
            reserves += 1
            reserve = layer_calls(shape)[0][2][3]
            assert ["a", reserve.numel()] in recorded(shape, "aten._cudnn_rnn"), describe(shape)
    print(f"{exact / count:8.2%} of {count} calls of recurrent layers exact, the others within 128 bytes; {reserves} reserves exact")
    assert not wrong, "\n".join(wrong)
    assert exact >= 0.97 * count


# --- attention ---


def attention_calls(shape: dict) -> list[tuple[str, list, list]]:
    """Calls of the fused kernel that was recorded, with the results that PyTorch's fake kernels give."""
    names = [name.removesuffix(".default") for name, _ in shape["ops"] if name.startswith(ATTENTION)]
    n, heads, kv_heads, queries, keys, width = (shape[key] for key in ("n", "heads", "kv_heads", "queries", "keys", "width"))
    dtype = shape["dtype"]

    def part(heads: int, rows: int) -> Tensor:
        return Tensor(dtype, [n, heads, rows, width], [rows * heads * width, width, heads * width, 1])

    q, k, v, out = part(heads, queries), part(kv_heads, keys), part(kv_heads, keys), part(heads, queries)
    rows = -(-queries // 32) * 32 if "efficient" in "".join(names) else queries
    sums = Tensor("float32", [n, heads, rows if shape["train"] else 0])
    calls = []
    for name in names:
        if name.endswith("_backward"):
            args = [out, q, k, v, None, out, sums] if "efficient" in name else [out, q, k, v, out, sums]
            calls.append((name, args, [q, k, v]))
        elif "flash" in name:
            sums = Tensor("float32", [n, heads, queries])
            made = [out, sums, Tensor("uint64", [2]), Tensor("uint64", [])]
            calls.append((name, [q, k, v, shape["dropout"]], made))
        else:
            made = [out, sums] + ([Tensor("int64", []), Tensor("int64", [])] if "cudnn" in name else [])
            calls.append((name, [q, k, v, None, shape["train"], shape["dropout"]], made))
    return calls


def test_attention():
    totals, wrong = {}, []
    for shape in load("attention"):
        for op, args, made in attention_calls(shape):
            steps, real = predicted(op, args, made), recorded(shape, op)
            total = totals.setdefault(op, [0, 0])
            total[0] += 1
            total[1] += steps == real
            if steps != real:
                wrong.append(f"{op} {describe(shape)}: recorded {real}, predicted {steps}")
    for op, (count, exact) in totals.items():
        print(f"{exact / count:8.2%} of {count} {op} exact")
    assert not wrong, "\n".join(wrong)


def captured(shape: dict, torch) -> list[list]:
    """What the capture writes down for the call: ops with the sizes of their allocations, without what a library keeps."""
    from brimful.torch import kernels
    from brimful.torch.recorder import ALLOC, COLUMNS, DEVICE, Places, Recorder, Strings
    from brimful.torch.scratch import Gpu
    from torch._subclasses import FakeTensorMode

    dtype, train, heads = getattr(torch, shape["dtype"]), shape["train"], shape["heads"]
    gpu = Gpu(capability=(9, 0), multiprocessors=132, cudnn=(9, 19))
    strings = Strings()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, kernels.installed(gpu):
        recorder = Recorder(mode, strings, gpu, Places(strings, {}))

        def part(heads: int, length: int):
            size = (shape["n"], length, heads, shape["width"])
            return torch.empty(size, device=DEVICE, dtype=dtype).transpose(1, 2).requires_grad_(train)

        q, k, v = part(heads, shape["queries"]), part(shape["kv_heads"], shape["keys"]), part(shape["kv_heads"], shape["keys"])
        mask = None
        if shape["masked"]:
            mask = torch.ones(shape["n"], 1, shape["queries"], shape["keys"], dtype=torch.bool, device=DEVICE)
        for tensor in (q, k, v, *([] if mask is None else [mask])):
            recorder.born(tensor, 0)
        before = len(recorder.rows)
        with recorder, torch.set_grad_enabled(train):
            causal = shape["causal"] and mask is None
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, mask, shape["dropout"], causal, enable_gqa=shape["kv_heads"] != heads
            )
            if train:
                out.backward(torch.empty_like(out))
        recorder.close()
    calls: dict[int, list] = {}
    names = {}
    for at in range(before, len(recorder.rows), COLUMNS):
        kind, _, size, op, _, _, _, call, _ = recorder.rows[at : at + COLUMNS]
        if kind == ALLOC and size and size != CUBLAS_BYTES and not strings.table[op].startswith("cublas"):
            names.setdefault(call, strings.table[op])
            calls.setdefault(call, []).append(size)
    return [[names[call], sizes] for call, sizes in calls.items()]


def without_extras(calls: list, train: bool) -> list[list[int]]:
    """Sizes without what fake kernels make and real ones do not: the efficient kernel's state of dropout, which is on the host, and
    the sums that cuDNN's kernel leaves out of inference."""
    sizes = []
    for name, found in calls:
        if name == ATTENTION + "efficient_attention" and found[-2:] == [8, 8]:
            found = found[:-2]
        if name == ATTENTION + "cudnn_attention" and not train and len(found) == 5:
            found = found[:3] + found[4:]
        sizes.append(found)
    return sizes


def test_capture_chooses_the_recorded_kernels():
    torch = pytest.importorskip("torch")
    pytest.importorskip("brimful.torch.capture")
    same, wrong, shapes = 0, [], load("attention")
    for shape in shapes:
        ours = captured(shape, torch)
        real = [[name.rsplit(".", 1)[0], [n for a, n in steps if a == "a" and n != CUBLAS_BYTES]] for name, steps in shape["ops"]]
        kernels = [[name for name, _ in part if name.startswith(ATTENTION)] for part in (ours, real)]
        real_sizes = [sizes for _, sizes in real]
        same += [sizes for _, sizes in ours] == real_sizes
        if kernels[0] != kernels[1] or without_extras(ours, shape["train"]) != real_sizes:
            wrong.append(f"{describe(shape)}: recorded {real}, captured {ours}")
    right, plain = 1 - len(wrong) / len(shapes), same / len(shapes)
    print(f"{right:8.2%} of {len(shapes)} attention calls choose the recorded kernel and sizes, {plain:.2%} without extras")
    assert not wrong, "\n".join(wrong)


CHOICES = [  # capability, PyTorch, dtype, what differs from (2, 8, 128, 64), the kernel
    ((7, 5), (2, 11), "float16", {}, "efficient"),
    ((7, 5), (2, 11), "bfloat16", {}, "math"),
    ((7, 5), (2, 11), "float32", {"width": 63}, "efficient"),
    ((8, 0), (2, 11), "float32", {"width": 63}, "math"),
    ((8, 0), (2, 11), "float64", {}, "math"),
    ((8, 0), (2, 4), "bfloat16", {}, "flash"),
    ((8, 0), (2, 11), "bfloat16", {"width": 63}, "flash"),
    ((8, 0), (2, 11), "bfloat16", {"width": 264}, "efficient"),
    ((8, 0), (2, 11), "bfloat16", {"masked": True}, "efficient"),
    ((8, 0), (2, 11), "bfloat16", {"masked": True, "width": 63}, "math"),
    ((8, 0), (2, 11), "bfloat16", {"causal": True, "keys": 77}, "efficient"),
    ((8, 0), (2, 11), "bfloat16", {"kv_heads": 2}, "flash"),
    ((8, 0), (2, 11), "bfloat16", {"kv_heads": 2, "masked": True}, "math"),
    ((8, 0), (2, 14), "bfloat16", {"kv_heads": 2, "masked": True}, "efficient"),
    ((8, 6), (2, 11), "bfloat16", {"width": 200}, "efficient"),
    ((8, 6), (2, 11), "bfloat16", {"width": 200, "train": False}, "flash"),
    ((8, 9), (2, 11), "bfloat16", {"width": 256}, "flash"),
    ((8, 9), (2, 11), "bfloat16", {"width": 256, "dropout": 0.1}, "efficient"),
    ((12, 0), (2, 11), "bfloat16", {"width": 256, "dropout": 0.1}, "efficient"),
    ((12, 0), (2, 6), "bfloat16", {}, "math"),
    ((12, 0), (2, 7), "bfloat16", {}, "flash"),
    ((9, 0), (2, 8), "bfloat16", {}, "flash"),
    ((9, 0), (2, 9), "bfloat16", {}, "cudnn"),
    ((9, 0), (2, 11), "bfloat16", {"queries": 1}, "cudnn"),
    ((9, 0), (2, 11), "bfloat16", {"queries": 1, "dropout": 0.1}, "flash"),
    ((9, 0), (2, 11), "bfloat16", {"dropout": 0.1}, "cudnn"),
    ((9, 0), (2, 12), "bfloat16", {"dropout": 0.1}, "flash"),
    ((9, 0), (2, 12), "bfloat16", {"dropout": 0.125}, "cudnn"),
    ((10, 0), (2, 11), "bfloat16", {"width": 256}, "flash"),
    ((10, 3), (2, 10), "bfloat16", {}, "flash"),
    ((10, 3), (2, 11), "bfloat16", {}, "cudnn"),
]


@pytest.mark.parametrize("capability, version, dtype, options, expected", CHOICES)
def test_choice_by_gpu_and_version(capability, version, dtype, options, expected):
    """By PyTorch's source; only the choices of an H200 with 2.11 were recorded."""
    torch = pytest.importorskip("torch")
    kernels = pytest.importorskip("brimful.torch.kernels")
    from brimful.torch.scratch import Gpu

    given = dict(queries=128, keys=128, width=64, heads=8, kv_heads=8, masked=False, dropout=0.0, causal=False, train=True) | options

    def part(heads: int, rows: int):
        size = (2, heads, rows, given["width"])
        return torch.empty(size, device="meta", dtype=getattr(torch, dtype), requires_grad=given["train"])

    q, k, v = part(given["heads"], given["queries"]), *(part(given["kv_heads"], given["keys"]) for _ in range(2))
    mask = torch.empty(given["queries"], given["keys"], dtype=torch.bool, device="meta") if given["masked"] else None
    gpu, grouped = Gpu(capability=capability, multiprocessors=100), given["kv_heads"] != given["heads"]
    choice = kernels.attention_kernel(gpu, q, k, v, mask, given["dropout"], grouped, given["causal"], version, {})
    assert choice == expected
