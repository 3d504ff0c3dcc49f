"""`brimful calibrate`: what a process holds on this machine's GPU beside PyTorch's allocator.

In: a GPU. Out: a small table, and an entry of `calibration`. Outside the allocator: total - free - reserved, as each library is first
used, less what others held before. Inside it: the workspaces that cuBLAS and cuBLASLt take at a thread's first product, which the
allocator's own count shows. Not counted: what another process takes or gives back in these seconds.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any, Callable

from . import calibration
from .refusal import Refusal, imported, main

MIB = 1 << 20
# Large enough for the kernels of real jobs, small enough to be done at once.
SIZE = 512
DEVICE = "cuda"


def run(arguments: list[str]) -> tuple[str, int]:
    """Measures, keeps, and gives the table."""
    asked = json.loads(arguments[0]) if arguments else {}
    # Before this process has a context of its own.
    used = {row[0]: row[1] for row in calibration.smi("uuid", "memory.used") if len(row) == 2}
    torch = imported("torch")
    if not torch.cuda.is_available():
        raise Refusal(f"there is no GPU to measure: torch.cuda.is_available() is False in {sys.executable}")
    try:
        entry, notes = measure(torch, used)
    except torch.cuda.OutOfMemoryError:
        raise Refusal("the GPU has too little free memory to measure with: end what else runs on it, and run this again") from None
    try:
        file = calibration.keep(entry)
    except OSError as error:
        raise Refusal(f"{calibration.path()} cannot be written: {error.strerror}; set XDG_CACHE_HOME to a folder that can be") from None
    if asked.get("format") == "json":
        return json.dumps({"schema": calibration.SCHEMA, **asdict(entry), "file": str(file), "notes": notes}, indent=2) + "\n", 0
    return table(entry, notes, str(file)), 0


def measure(torch: Any, used: dict[str, str]) -> tuple[calibration.Entry, list[str]]:
    """The figures of the first GPU."""
    notes: list[str] = []
    properties = torch.cuda.get_device_properties(0)
    before = _before(properties, used)
    if before is None:
        notes.append("What others hold on this GPU could not be read from nvidia-smi: all of it is counted here.")
    elif before >= 64 * MIB:
        notes.append(f"Others held {before // MIB} MiB on this GPU, which is left out: measure again when it is idle.")

    def held() -> int:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info(0)
        return max(0, total - free - torch.cuda.memory_reserved(0) - (before or 0))

    torch.empty(1, device=DEVICE)
    stages = [("bare context", held())]
    cublas = _grown(torch, _product(torch, torch.float32))
    stages.append(("float32 products (cuBLAS)", held()))
    _product(torch, torch.bfloat16)()
    stages.append(("bfloat16 products", held()))
    cublas_lt = _grown(torch, _product_with_bias(torch))
    backward = _grown(torch, _backward(torch))
    stages.append(("products in the backward pass", held()))
    _convolution(torch)
    stages.append(("convolutions, batch norm (cuDNN)", held()))
    _attention(torch)
    stages.append(("attention", held()))
    _training(torch)
    stages.append(("a training step with AdamW", held()))
    entry = calibration.Entry(
        gpu=properties.name,
        driver=calibration.driver_version(),
        torch=torch.__version__,
        cuda=str(torch.version.cuda),
        bare_context_bytes=stages[0][1],
        context_bytes=max(size for _, size in stages),
        cublas_bytes=cublas,
        cublas_lt_bytes=cublas_lt,
        cublas_backward_bytes=backward,
        stages=tuple(stages),
    )
    return entry, notes


def _before(properties: Any, used: dict[str, str]) -> int | None:
    """What others held before this process had a context, in bytes."""
    uuid = str(getattr(properties, "uuid", ""))
    text = next((value for key, value in used.items() if uuid and key.removeprefix("GPU-") == uuid.removeprefix("GPU-")), None)
    if text is None and len(used) == 1:
        text = next(iter(used.values()))
    return int(text) * MIB if text is not None and text.isdecimal() else None


def _grown(torch: Any, call: Callable[[], None]) -> int:
    """How much more the allocator has handed out after a call that keeps none of its results."""
    before = torch.cuda.memory_allocated(0)
    call()
    torch.cuda.synchronize()
    return max(0, torch.cuda.memory_allocated(0) - before)


def _product(torch: Any, dtype: Any) -> Callable[[], None]:
    left, out = (torch.zeros(SIZE, SIZE, device=DEVICE, dtype=dtype) for _ in range(2))
    return lambda: torch.mm(left, left, out=out)


def _product_with_bias(torch: Any) -> Callable[[], None]:
    layer = torch.nn.Linear(SIZE, SIZE, device=DEVICE)
    inputs = torch.zeros(SIZE, SIZE, device=DEVICE)

    def call() -> None:
        with torch.no_grad():
            layer(inputs)

    return call


def _backward(torch: Any) -> Callable[[], None]:
    weight = torch.zeros(SIZE, SIZE, device=DEVICE, requires_grad=True)
    weight.grad = torch.zeros_like(weight)  # added to in place, so that no gradient is new
    inputs = torch.zeros(SIZE, SIZE, device=DEVICE)
    return lambda: (inputs @ weight).sum().backward()


def _convolution(torch: Any) -> None:
    nn = torch.nn
    for dtype in (torch.float32, torch.bfloat16):
        layers = nn.Sequential(nn.Conv2d(16, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 1))
        layers = layers.to(DEVICE, dtype)
        layers(torch.zeros(8, 16, 32, 32, device=DEVICE, dtype=dtype, requires_grad=True)).float().mean().backward()


def _attention(torch: Any) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        heads = torch.zeros(4, 8, 256, 64, device=DEVICE, dtype=dtype, requires_grad=True)
        torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True).float().mean().backward()


def _training(torch: Any) -> None:
    """What most jobs use beside: embeddings, norms, dropout, a loss, clipping, an optimizer over lists of tensors."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, activation="gelu", batch_first=True)
    model = nn.Sequential(nn.Embedding(1000, 128), layer, nn.LayerNorm(128), nn.Linear(128, 1000)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 1000, (8, 128), device=DEVICE)
    for autocast in (False, True):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=autocast):
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    loss.item()


def table(entry: calibration.Entry, notes: list[str], file: str) -> str:
    """The figures for people."""
    lines = [f"{entry.gpu}, driver {entry.driver}, PyTorch {entry.torch}, CUDA {entry.cuda}", "", "Held beside the allocator, after"]
    lines += [f"  {name:<34} {size / MIB:>8.1f} MiB" for name, size in entry.stages]
    lines += ["", "Workspaces in the allocator"]
    sizes = (
        ("cuBLAS, forward", entry.cublas_bytes),
        ("cuBLASLt, forward", entry.cublas_lt_bytes),
        ("cuBLAS, backward", entry.cublas_backward_bytes),
    )
    lines += [f"  {name:<34} {size / MIB:>8.1f} MiB" for name, size in sizes]
    plans = f"Plans for this GPU now count {entry.context_bytes / MIB:.0f} MiB beside the allocator."
    return "\n".join([*lines, "", plans, f"Kept in {file}.", *notes]) + "\n"


if __name__ == "__main__":
    main(run)
