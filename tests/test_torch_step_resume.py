"""A PyTorch job that is killed and started again from the user's own checkpoint goes on as if nothing had happened."""

import os
import signal
from pathlib import Path

import forked
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
    script = folder / "job.py"
    script.write_text(JOB)
    environment = {**os.environ, "BRIMFUL_CACHE": str(folder / "cache")}
    job = forked.run(script, folder, kill_at, env=environment, timeout=300, modules=forked.PLANNING_TORCH)
    assert job.returncode in (0, -signal.SIGKILL), job.stderr[-3000:]
    return job.returncode


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Where a job is that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder, 0) == 0
    return folder


@pytest.mark.parametrize("kill_at", [3, 6])
def test_a_killed_job_goes_on_from_its_checkpoint(whole, tmp_path, kill_at):
    assert run(tmp_path, kill_at) == -signal.SIGKILL
    assert run(tmp_path, 0) == 0
    for expected, got in zip(torch.load(whole / "end.pt"), torch.load(tmp_path / "end.pt")):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
