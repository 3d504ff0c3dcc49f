"""Record what cuDNN's recurrent kernels and the attention kernels ask of the allocator, over many shapes. Needs a GPU.

In: nothing. Out: JSON lines: the kind, its shape, and the allocations of forward and backward, op by op, in order.
"""

import argparse
import json
import random
import time

BEGIN_BYTES, END_BYTES = 501, 503


def main():
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float)
    arguments.add_argument("--out")
    options = arguments.parse_args()
    device, start, rng = "cuda", time.time(), random.Random(7)
    torch.zeros(1, device=device)

    class Bracket(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.calls = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls.append(str(func))
            torch.empty(BEGIN_BYTES, dtype=torch.uint8, device=device)
            result = func(*args, **(kwargs or {}))
            torch.empty(END_BYTES, dtype=torch.uint8, device=device)
            return result

    def rnn():
        shape = dict(
            kind="rnn",
            mode=rng.choice(["LSTM", "LSTM", "GRU", "RNN"]),
            n=rng.choice([1, 4, 16, 64, 100, 256]),
            steps=rng.choice([1, 8, 32, 100, 128]),
            inputs=rng.choice([16, 64, 100, 256, 512]),
            hidden=rng.choice([16, 64, 100, 128, 256, 512]),
            layers=rng.choice([1, 1, 2, 3]),
            both=rng.random() < 0.4,
            dropout=rng.choice([0.0, 0.0, 0.2]),
            dtype=rng.choice(["float32", "float32", "float16", "bfloat16"]),
            batch_first=rng.random() < 0.5,
            train=rng.random() < 0.85,
            bias=rng.random() < 0.9,
        )
        dtype = getattr(torch, shape["dtype"])
        layer = getattr(torch.nn, shape["mode"])(
            shape["inputs"],
            shape["hidden"],
            shape["layers"],
            bias=shape["bias"],
            batch_first=shape["batch_first"],
            dropout=shape["dropout"],
            bidirectional=shape["both"],
        ).to(device, dtype)
        layer.train(shape["train"])
        size = (shape["n"], shape["steps"]) if shape["batch_first"] else (shape["steps"], shape["n"])
        x = torch.randn(*size, shape["inputs"], device=device, dtype=dtype, requires_grad=shape["train"])

        def run():
            with torch.set_grad_enabled(shape["train"]):
                out = layer(x)[0]
            if shape["train"]:
                out.backward(torch.empty_like(out))

        return shape, run

    def attention():
        heads = rng.choice([1, 4, 8, 12, 16])
        shape = dict(
            kind="attention",
            n=rng.choice([1, 2, 4, 8]),
            heads=heads,
            kv_heads=rng.choice([heads, heads, max(1, heads // 4)]),
            queries=rng.choice([1, 64, 100, 128, 197, 256, 512, 1000, 1024]),
            width=rng.choice([16, 32, 40, 64, 80, 96, 128, 160, 256]),
            causal=rng.random() < 0.5,
            masked=rng.random() < 0.3,
            dropout=rng.choice([0.0, 0.0, 0.1]),
            dtype=rng.choice(["float32", "bfloat16", "bfloat16", "float16"]),
            train=rng.random() < 0.85,
        )
        shape["keys"] = rng.choice([shape["queries"], shape["queries"], 77, 512])
        dtype = getattr(torch, shape["dtype"])

        def part(heads, length):
            size = (shape["n"], length, heads, shape["width"])
            return torch.randn(size, device=device, dtype=dtype).transpose(1, 2).requires_grad_(shape["train"])

        q, k, v = part(heads, shape["queries"]), part(shape["kv_heads"], shape["keys"]), part(shape["kv_heads"], shape["keys"])
        mask = torch.ones(shape["n"], 1, shape["queries"], shape["keys"], dtype=torch.bool, device=device) if shape["masked"] else None

        def run():
            with torch.set_grad_enabled(shape["train"]):
                out = torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, mask, shape["dropout"], shape["causal"] and mask is None, enable_gqa=shape["kv_heads"] != heads
                )
            if shape["train"]:
                out.backward(torch.empty_like(out))

        return shape, run

    with open(options.out, "w") as out:
        while time.time() - start < options.seconds:
            shape, run = rng.choice([rnn, attention])()
            mode = Bracket()
            torch.cuda.memory._record_memory_history(max_entries=100_000, context=None, clear_history=True)
            try:
                with mode:
                    run()
            except Exception as error:
                out.write(json.dumps(dict(shape, error=str(error)[:200])) + "\n")
                continue
            torch.cuda.synchronize()
            trace = torch.cuda.memory._snapshot()["device_traces"][0]
            groups, inside, ids, markers = [], False, {}, set()
            for entry in trace:
                action, address, size = entry["action"], entry["addr"], entry["size"]
                if action == "alloc" and size in (BEGIN_BYTES, END_BYTES):
                    markers.add(address)
                    inside = size == BEGIN_BYTES
                    if inside:
                        groups.append([])
                        ids = {}
                elif action == "free_completed" and address in markers:
                    markers.discard(address)
                elif inside and action == "alloc":
                    ids[address] = sum(step[0] == "a" for step in groups[-1])
                    groups[-1].append(["a", size])
                elif inside and action == "free_completed":
                    groups[-1].append(["f", ids.get(address, -1)])
            ops = [[name, group] for name, group in zip(mode.calls, groups) if group]
            out.write(json.dumps(dict(shape, ops=ops)) + "\n")
    print("seconds", round(time.time() - start))


if __name__ == "__main__":
    main()
