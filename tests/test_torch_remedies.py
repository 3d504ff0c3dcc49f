"""Remedies, simulated on one capture, against measured runs of the job as the remedy makes it (`fixtures/measured/torch_*.jsonl`).

What a remedy says is compared with another run that really used it: expandable segments, fused and lighter optimizers, checkpointing,
micro-batches, autocast. A bound may be above, never far below.
"""

import json
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import torch_accuracy  # noqa: E402

MEASURED = ROOT / "fixtures" / "measured"
CASES = [
    # the job, the remedy, the run that used it, how far off the peak may be
    ("resnet50 64 adamw fp32", "expandable_segments", "resnet50 64 adamw fp32 expandable", (-0.03, 0.03)),
    ("bert 8 adamw bf16 512", "expandable_segments", "bert 8 adamw bf16 512 expandable", (-0.03, 0.03)),
    ("gpt2 2 adam fp32 256", "fused_optimizer", "gpt2 2 adamw_fused fp32 256", (-0.05, 0.05)),
    ("gpt2 8 adamw bf16 512", "activation_checkpointing", "gpt2 8 adamw bf16 512 ckpt", (-0.05, 0.15)),
    ("bert 8 adamw bf16 512", "activation_checkpointing", "bert 8 adamw bf16 512 ckpt", (-0.05, 0.15)),
    ("vit_b_16 64 adamw fp32", "micro_batches", "vit_b_16 64 adamw fp32 accumulate", (-0.05, 0.05)),
    ("resnet50 64 adamw fp32", "mixed_precision", "resnet50 64 adamw bf16", (-0.05, 0.20)),
    ("vit_b_16 64 adamw fp32", "mixed_precision", "vit_b_16 64 adamw bf16", (-0.05, 0.20)),
]


def job_of(name: str) -> dict:
    parts = name.split()
    job = {"model": parts[0], "batch": int(parts[1]), "opt": parts[2], "dtype": parts[3]}
    for part in parts[4:]:
        if part.isdigit():
            job["seq"] = int(part)
    return job


def measured() -> dict:
    found = {}
    for file in ("torch_h200.jsonl", "torch_variants_h200.jsonl"):
        for line in (MEASURED / file).open():
            job = json.loads(line)
            if job["model"] not in torch_accuracy.torch_jobs.TRANSFORMERS:
                job.pop("seq", None)
            found[torch_accuracy.name_of(job)] = max(step["peak_reserved"] for step in job["steps"])
    return found


@pytest.mark.skipif(not torch.__version__.startswith("2.11"), reason="the rows were measured with PyTorch 2.11")
@pytest.mark.parametrize(("name", "remedy", "used", "bounds"), CASES, ids=lambda value: str(value).replace(" ", "-"))
def test_a_remedy_needs_what_a_run_with_it_needed(name, remedy, used, bounds):
    truth = measured()[used]
    # These come in strengths, of which the gentlest that fits is shown: just enough memory asks for the one that was measured.
    memory = int(truth * 1.05) if remedy in ("micro_batches", "activation_checkpointing") else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = torch_accuracy.predicted(job_of(name), **({"memory": memory} if memory else {}))
    [found] = [entry for entry in plan.remedies if entry["id"] == remedy]
    # What is shown is the upper end of the range, with the context.
    predicted = (found["peak_bytes"] - plan.breakdown["context"]) / (plan.peak.high_bytes - plan.breakdown["context"])
    predicted *= plan.peak.reserved_bytes
    low, high = bounds
    assert low <= predicted / truth - 1 <= high, (predicted / 2**20, truth / 2**20)
    assert found["apply"]["torch"]
