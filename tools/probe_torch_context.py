"""What a PyTorch process holds on the GPU beyond its allocator, as one library after the other is first used. Needs a GPU.

Also writes two memory snapshots for the snapshot reader's tests: a small job, and one that ran out of memory.
"""

import argparse
import json

import torch

MIB = 2**20


def outside_mib():
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return round((total - free - torch.cuda.memory_reserved()) / MIB, 1)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--snapshots")
    options = arguments.parse_args()
    device = "cuda"
    properties = torch.cuda.get_device_properties(0)
    print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), properties, properties.total_memory)
    torch.zeros(1, device=device)
    print("context", outside_mib())
    a = torch.randn(512, 512, device=device)
    print("randn", outside_mib())
    a @ a
    print("float32 matmul", outside_mib(), "reserved", torch.cuda.memory_reserved() / MIB)
    b = a.bfloat16()
    b @ b
    print("bfloat16 matmul", outside_mib(), "reserved", torch.cuda.memory_reserved() / MIB)
    torch.nn.functional.linear(b, b, b[0])
    print("linear with bias", outside_mib(), "reserved", torch.cuda.memory_reserved() / MIB)
    x = torch.randn(8, 16, 32, 32, device=device, requires_grad=True)
    w = torch.randn(16, 16, 3, 3, device=device, requires_grad=True)
    y = torch.nn.functional.conv2d(x, w)
    print("conv", outside_mib())
    y.sum().backward()
    print("conv backward", outside_mib())
    bn = torch.nn.BatchNorm2d(16).to(device)
    bn(x).sum().backward()
    print("batch norm", outside_mib())
    q = torch.randn(2, 4, 128, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
    torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
    print("attention", outside_mib())
    torch.nn.LSTM(16, 16).to(device)(torch.randn(4, 4, 16, device=device))[0].sum().backward()
    print("lstm", outside_mib())
    if options.snapshots:
        torch.cuda.empty_cache()
        torch.cuda.memory._record_memory_history(max_entries=20000)
        train(device, 64)
        torch.cuda.memory._dump_snapshot(f"{options.snapshots}/mlp.pickle")
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.memory._record_memory_history(max_entries=400)
        torch.cuda.set_per_process_memory_fraction(2**30 / properties.total_memory)
        try:
            train(device, 400_000)
        except torch.OutOfMemoryError as error:
            print(json.dumps(str(error)))
        torch.cuda.memory._dump_snapshot(f"{options.snapshots}/out_of_memory.pickle")


def train(device, batch):
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        x = torch.randn(batch, 256, device=device)
        loss = model(x).logsumexp(1).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
