"""A PyTorch job that is killed and started again from the user's own checkpoint goes on as if nothing had happened."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

JOB = """
import os, sys, torch
from torch import nn
import brimful.torch

folder, kill_at = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
data = [(torch.randn(1024, 256), torch.randint(0, 10, (1024,))) for _ in range(8)]
kept, first = f"{folder}/kept.pt", 0
if os.path.exists(kept):
    found = torch.load(kept)
    model.load_state_dict(found["model"]); optimizer.load_state_dict(found["optimizer"]); schedule.load_state_dict(found["schedule"])
    first = found["step"]
step = brimful.torch.Step(model, nn.CrossEntropyLoss(), optimizer, scheduler=schedule, memory="32MiB")
for index in range(first, len(data)):
    step(data[index])
    if index + 1 == kill_at:
        os.kill(os.getpid(), 9)
    if index % 2:
        found = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(), "step": index + 1}
        torch.save(found, kept + ".new"); os.replace(kept + ".new", kept)
assert step.size < 1024, f"{step.size} at a time"
torch.save([parameter.detach() for parameter in model.parameters()], f"{folder}/end.pt")
"""


def run(folder: Path, kill_at: int) -> int:
    environment = {**os.environ, "BRIMFUL_CACHE": str(folder / "cache")}
    job = subprocess.run(
        [sys.executable, "-c", JOB, str(folder), str(kill_at)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert job.returncode in (0, -signal.SIGKILL), job.stderr[-3000:]
    return job.returncode


@pytest.mark.parametrize("kill_at", [3, 6])
def test_a_killed_job_goes_on_from_its_checkpoint(tmp_path, kill_at):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert run(whole, 0) == 0
    assert run(killed, kill_at) == -signal.SIGKILL
    assert run(killed, 0) == 0
    for expected, got in zip(torch.load(whole / "end.pt"), torch.load(killed / "end.pt")):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
