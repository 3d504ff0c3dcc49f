"""Record the workspaces that cuDNN takes for convolutions of many shapes.

In: nothing. Out: JSON lines, one per convolution: its shape, and the sizes that its forward and its backward ask of the
allocator, in order (an `a` for an allocation, an `f` for a free, with the number of the allocation). Needs a GPU.
"""

import argparse
import json
import random
import sys
import time

BEGIN_BYTES, END_BYTES = 501, 503
CHANNELS = [1, 3, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 240, 256, 320, 384, 512, 672, 768, 960, 1024, 1280, 2048]
SIDES = [7, 8, 12, 13, 14, 16, 17, 20, 27, 28, 32, 35, 56, 64, 96, 112, 128, 149, 224, 256]


def sample(rng):
    while True:
        n, side = rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 200]), rng.choice(SIDES)
        c, k = rng.choice(CHANNELS), rng.choice(CHANNELS)
        kernel = rng.choice([1, 1, 1, 3, 3, 3, 3, 5, 7])
        stride, groups = rng.choice([1, 1, 1, 2]), 1
        kind = rng.random()
        if kind < 0.15:
            groups = k = c
        elif kind < 0.25 and c % 32 == 0 and k % 32 == 0:
            groups = rng.choice([2, 8, 32])
        if kernel > 1 and rng.random() < 0.05:
            stride = 4
        if rng.random() < 0.05:
            kernel = stride = rng.choice([2, 4, 16])
        padding = kernel // 2 if rng.random() < 0.85 else 0
        if side + 2 * padding < kernel:
            continue
        out = (side + 2 * padding - kernel) // stride + 1
        if max(n * c * side * side, n * k * out * out) > 400e6 or k * c * kernel * kernel > 60e6:
            continue
        return dict(n=n, c=c, k=k, side=side, out=out, kernel=kernel, stride=stride, padding=padding, groups=groups)


def main():
    import torch

    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seed", type=int)
    arguments.add_argument("--seconds", type=float)
    arguments.add_argument("--out")
    options = arguments.parse_args()
    rng = random.Random(options.seed)
    device, start = "cuda", time.time()
    torch.zeros(1, device=device)
    torch.cuda.memory._record_memory_history(max_entries=200_000, context=None)

    def bracket(call):
        torch.empty(BEGIN_BYTES, dtype=torch.uint8, device=device)
        result = call()
        torch.empty(END_BYTES, dtype=torch.uint8, device=device)
        return result

    with open(options.out, "w") as out:
        while time.time() - start < options.seconds:
            shapes = []
            torch.cuda.memory._record_memory_history(max_entries=200_000, context=None, clear_history=True)
            for _ in range(60):
                shape = sample(rng)
                shape["dtype"] = rng.choice(["float32", "float32", "bfloat16", "float16"])
                shape["channels_last"] = rng.random() < 0.15
                shape["bias"] = rng.random() < 0.5
                dtype = getattr(torch, shape["dtype"])
                like = torch.channels_last if shape["channels_last"] else torch.contiguous_format
                x = torch.empty(shape["n"], shape["c"], shape["side"], shape["side"], device=device, dtype=dtype).normal_()
                w = torch.empty(
                    shape["k"], shape["c"] // shape["groups"], shape["kernel"], shape["kernel"], device=device, dtype=dtype
                ).normal_()
                x, w = x.contiguous(memory_format=like), w.contiguous(memory_format=like)
                b = torch.zeros(shape["k"], device=device, dtype=dtype) if shape["bias"] else None
                s, p, g = [shape["stride"]] * 2, [shape["padding"]] * 2, shape["groups"]
                try:
                    y = bracket(lambda: torch.ops.aten.convolution(x, w, b, s, p, [1, 1], False, [0, 0], g))
                    grad = torch.empty_like(y)
                    mask = [rng.random() < 0.9, True, shape["bias"]]
                    shape["mask"] = mask
                    bias = [shape["k"]] if shape["bias"] else None
                    args = (grad, x, w, bias, s, p, [1, 1], False, [0, 0], g, mask)
                    bracket(lambda: torch.ops.aten.convolution_backward(*args))
                except Exception as error:
                    shape["error"] = str(error)[:200]
                shapes.append(shape)
                del x, w, b
                y = grad = args = None
            trace = torch.cuda.memory._snapshot()["device_traces"][0]
            groups, inside, ids = [], False, {}
            markers = set()
            for entry in trace:
                action, address, size = entry["action"], entry["addr"], entry["size"]
                if action == "alloc" and size == BEGIN_BYTES:
                    groups.append([])
                    inside, ids = True, {}
                    markers.add(address)
                elif action == "alloc" and size == END_BYTES:
                    inside = False
                    markers.add(address)
                elif action == "free_completed" and address in markers:
                    markers.discard(address)
                elif inside and action == "alloc":
                    ids[address] = len(ids)
                    groups[-1].append(["a", size])
                elif inside and action == "free_completed":
                    groups[-1].append(["f", ids.get(address, -1)])
            if len(groups) != 2 * len(shapes):
                print("skipped: markers lost", len(groups), len(shapes), file=sys.stderr)
                continue
            for index, shape in enumerate(shapes):
                out.write(json.dumps(dict(shape, forward=groups[2 * index], backward=groups[2 * index + 1])) + "\n")
            torch.cuda.empty_cache()
    print("seconds", round(time.time() - start))


if __name__ == "__main__":
    main()
