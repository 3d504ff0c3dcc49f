"""PyTorch on a GPU that is given a small share: `python gpu_torch.py NAME` runs out in one way each."""

import subprocess
import sys
import time

import torch
from torch import nn

GIB = 1 << 30


def share(gib):
    """A smaller card: PyTorch's allocator refuses what lies beyond."""
    torch.cuda.set_per_process_memory_fraction(gib * GIB / torch.cuda.get_device_properties(0).total_memory)


def network(width=64):
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)).cuda()


def train(model, batch, steps=3, size=128):
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        images = torch.randn(batch, 3, size, size, device="cuda")
        labels = torch.randint(10, (batch,), device="cuda")
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


def forward():
    share(2)
    train(network(), batch=256)


class Wide(nn.Module):
    """Forward fits; the gradients of its inputs do not."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1024, 65536), nn.Linear(65536, 16)

    def forward(self, x):
        return self.second(self.first(x))


def backward():
    share(2.6)
    model = Wide().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(6000, 1024, device="cuda")
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()


def optimizer():
    share(2)
    model = nn.Sequential(*[nn.Linear(8192, 8192, bias=False) for _ in range(3)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(16, 8192, device="cuda")
    for step in range(3):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


def model():
    share(2)
    model = nn.Sequential(*[nn.Linear(8192, 8192) for _ in range(12)])
    model.to("cuda")


def validate(model, batch):
    with torch.no_grad():
        return model(torch.randn(batch, 3, 128, 128, device="cuda")).argmax(1)


def validation():
    share(3)
    net = network()
    train(net, batch=64)
    print("validation", flush=True)
    validate(net, batch=4096)


def pairs():
    share(4)
    x = torch.randn(60000, 64, device="cuda")
    distances = torch.cdist(x, x)
    print(distances.mean())


def fragmentation():
    share(2)
    # Three pieces share a segment of 20 MiB, and one of each three is kept: no segment can be given back.
    pieces = [torch.empty(6 << 20, dtype=torch.uint8, device="cuda") for _ in range(290)]
    held = pieces[::3]
    del pieces
    print(f"holding {len(held)} pieces", flush=True)
    batch = torch.empty(400 << 20, dtype=torch.uint8, device="cuda")
    print(batch.shape)


def hold(gib_left):
    """Another process that leaves so much."""
    free, _ = torch.cuda.mem_get_info()
    taken = torch.empty(int(free - gib_left * GIB), dtype=torch.uint8, device="cuda")
    print("holding", flush=True)
    time.sleep(600)
    del taken


def beside(gib_left):
    process = subprocess.Popen([sys.executable, __file__, "hold", str(gib_left)], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def other():
    process = beside(1.5)
    try:
        train(network(), batch=512)
    finally:
        process.kill()


def data():
    share(4)
    x_train = torch.randn(400_000, 3, 32, 32)
    x_train = x_train.to("cuda")
    print(x_train.shape)


def leak():
    share(2)
    net = network(32)
    losses = []
    for step in range(10_000):
        images = torch.randn(16, 3, 64, 64, device="cuda")
        losses.append(net(images).square().mean())
        print(f"step {step} loss {losses[-1].item():.4f} allocated {torch.cuda.memory_allocated() >> 20} MiB", flush=True)


def index():
    embedding = nn.Embedding(1000, 64).cuda()
    head = nn.Linear(64, 64).cuda()
    tokens = torch.full((2, 4), 2000, device="cuda")
    print(head(embedding(tokens)).sum())


def checkpoint():
    share(1)
    model = nn.Sequential(*[nn.Linear(8192, 8192, bias=False) for _ in range(3)]).cuda()
    path = sys.argv[2]
    torch.save(model.state_dict(), path)
    state = torch.load(path)
    model.load_state_dict(state)


def fill():
    """Takes what is left of the device, to the last 2 MiB, which is the least that the driver gives."""
    taken, size = [], GIB
    while size >= 2 << 20:
        try:
            taken.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
    return taken


def full():
    """The process has its context and its tensors; then others take what is left."""
    a = torch.ones(64, 64, device="cuda")
    taken = fill()
    print(f"{torch.cuda.mem_get_info()[0] >> 20} MiB are free", flush=True)
    return a, taken


def handle():
    a, taken = full()
    print((a @ a).sum())


def linear_handle():
    a, taken = full()
    layer = torch.nn.functional.linear(a, a, a[0])
    print(layer.sum())


def convolution_handle():
    a, taken = full()
    print(nn.functional.conv2d(a.reshape(1, 1, 64, 64), a.reshape(1, 1, 64, 64)[:, :, :3, :3]).sum())


def solver_handle():
    a, taken = full()
    print(torch.linalg.inv(a + torch.ones_like(a)).sum())


def transform_handle():
    a, taken = full()
    print(torch.fft.fft(a).abs().sum())


def threads():
    """Each thread has a handle of its own: the second one's comes when the device is full."""
    import threading

    a = torch.ones(64, 64, device="cuda")
    print((a @ a).sum().item(), flush=True)
    taken = fill()
    thread = threading.Thread(target=lambda: print((a @ a).sum().item()))
    thread.start()
    thread.join()
    del taken


def context():
    """Another process leaves less than a context needs."""
    process = beside(0.1)
    try:
        torch.ones(8, device="cuda")
    finally:
        process.kill()


def device_set():
    """The first that uses a device needs a context."""
    process = beside(0.1)
    try:
        torch.cuda.set_device(0)
        print(torch.cuda.mem_get_info())
    finally:
        process.kill()


def collective():
    """NCCL makes its communicator when it is first used; the device is full by then."""
    torch.distributed.init_process_group("nccl", init_method="tcp://127.0.0.1:29533", rank=0, world_size=1)
    a, taken = full()
    torch.distributed.barrier(device_ids=[0])
    print(a.sum(), len(taken))


def pinned():
    batch = torch.empty(4096 * GIB, dtype=torch.uint8, pin_memory=True)
    print(batch.shape)


def graphs():
    """Captured graphs keep pools of their own."""
    share(2)
    kept = []
    for number in range(100):
        graph = torch.cuda.CUDAGraph()
        x = torch.ones(32 << 20, device="cuda")
        with torch.cuda.graph(graph):
            y = x * 2 + 1
        kept.append((graph, x, y))
        print("captured", number, flush=True)


def batch_finder():
    from accelerate.utils import find_executable_batch_size

    share(1)

    @find_executable_batch_size(starting_batch_size=64)
    def training(batch_size):
        print("trying", batch_size, flush=True)
        torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")

    training()


def trainer():
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    share(2)
    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=512, n_head=8))
    rows = [{"input_ids": torch.arange(512), "labels": torch.arange(512)} for _ in range(256)]
    arguments = TrainingArguments(
        sys.argv[2], per_device_train_batch_size=64, max_steps=3, report_to=[], save_strategy="no", disable_tqdm=True
    )
    Trainer(model=model, args=arguments, train_dataset=rows).train()


def cupy_limit():
    import cupy

    cupy.get_default_memory_pool().set_limit(size=GIB)
    held = [cupy.zeros((256, 1 << 18), dtype="float32") for _ in range(3)]
    print(len(held), cupy.zeros((20_000, 20_000), dtype="float32").sum())


def rank():
    import os

    torch.distributed.init_process_group("gloo")
    share(1.5)
    number = int(os.environ["RANK"])
    train(network(), batch=32 if number == 0 else 512)


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(float(sys.argv[2]))
    else:
        globals()[sys.argv[1]]()
