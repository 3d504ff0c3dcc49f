"""PyTorch as users write it: loaders with and without workers, two optimizers, accumulation, compiled steps, saving, processes of its own.

Prints what the agent should have seen, as JSON.
"""

import json
import multiprocessing
import os
import sys
import tempfile
import time

import torch
from torch.utils.data import DataLoader, Dataset

#: Two rows take longer than the agent holds a step back.
SLOW_S = 0.03


class Rows(Dataset):
    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def __len__(self):
        return 8

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((4,), float(index))


def train(model, optimizer, loader):
    for rows in loader:
        model(rows).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def in_a_process(updates):
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), [torch.ones(2, 4)] * updates)


def main():
    seen = {"pid": os.getpid()}
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    first = torch.optim.SGD(model.parameters(), lr=0.01)
    began = time.monotonic()
    train(model, first, DataLoader(Rows(SLOW_S), batch_size=2))  # 4
    seen["waited_us"] = [8 * SLOW_S * 1e6, (time.monotonic() - began) * 1e6]
    train(model, first, DataLoader(Rows(), batch_size=2, num_workers=2))  # 4
    second = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(5):  # Two that take turns: 5.
        for optimizer in (first, second):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for index in range(8):  # Two batches for each update: 4.
        model(torch.ones(2, 4)).sum().backward()
        if index % 2:
            first.step()
            first.zero_grad()
    later = torch.optim.SGD(model.parameters(), lr=0.01)
    train(model, later, [torch.ones(2, 4)] * 30)  # It takes the lead: 30.

    @torch.compile(backend="eager")
    def compiled(rows):
        model(rows).sum().backward()
        later.step()

    for _ in range(3):  # 3
        compiled(torch.ones(2, 4))
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), os.path.join(folder, "weights.pt"))
    seen["steps"] = 4 + 4 + 5 + 4 + 30 + 3
    child = multiprocessing.get_context("fork").Process(target=in_a_process, args=(6,))
    child.start()
    child.join()
    seen["child"] = [child.pid, 6]
    print(json.dumps(seen), flush=True)
    print(f"{float(sum(value.sum() for value in model.state_dict().values())):.6f}", sys.argv[1:], file=sys.stderr)


if __name__ == "__main__":
    main()

    class Broken(Rows):
        def __getitem__(self, index):
            raise ValueError("this row cannot be read")

    list(DataLoader(Broken()))
