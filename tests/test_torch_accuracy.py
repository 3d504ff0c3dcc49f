"""Predictions against what an H200 really used (`fixtures/measured/torch_*.jsonl`), with real PyTorch on the CPU.

A few rows of each kind; `make accuracy` compares all of them. The bounds are those that the project promises for all rows together,
wider where single rows may stray.
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
# What the rows were measured with; other versions of the libraries build other models.
SAME_VERSION = torch.__version__.startswith("2.11")
CHOSEN = {
    "torch_h200.jsonl": [
        "resnet18 32 adamw fp32", "resnet18 16 sgd fp16", "resnet50 64 adamw bf16", "resnet50 64 adamw bf16 channels_last",
        "vgg16 32 adamw fp32", "vit_b_16 64 adamw bf16", "mobilenet_v2 64 momentum fp32", "seed_cnn 64 adam fp32", "unet 4 sgd bf16",
        "seed_lstm 2048 adam fp32", "gpt2 4 adamw fp32 512", "gpt2 8 adamw bf16 512", "bert 8 adamw bf16 512 ckpt",
        "llama160m 4 adamw bf16_pure 512", "pythia160m 8 sgd fp32 256", "gpt2 2 adafactor fp32 256", "resnet50 8 adagrad fp32",
        "seed_mlp 65536 sgd bf16",
    ],
    "torch_variants_h200.jsonl": [
        "vit_b_16 64 adamw fp32 inference", "gpt2 8 adamw fp32 512 frozen", "resnet50 64 adamw fp32 accumulate",
        "bert 8 adamw bf16 512 expandable", "unet 16 adamw fp32 expandable",
    ],
    "torch_others_h200.jsonl": [
        "resnet34 40 adamw fp32", "swin_t 80 momentum fp32", "qwen2 6 adamw bf16 640", "opt125m 4 momentum fp32 512",
        "gru2 1000 adam fp32", "encoder_gelu 40 nadam fp32", "t5small 12 adamw fp32 384",
    ],
}  # fmt: skip


def rows():
    for file, names in CHOSEN.items():
        found = {}
        for line in (MEASURED / file).open():
            job = json.loads(line)
            if job["model"] not in torch_accuracy.torch_jobs.TRANSFORMERS:
                job.pop("seq", None)
            found[torch_accuracy.name_of(job)] = job
        for name in names:
            yield pytest.param(found[name], id=name.replace(" ", "-"))


@pytest.mark.skipif(not SAME_VERSION, reason="the rows were measured with PyTorch 2.11")
@pytest.mark.parametrize("job", list(rows()))
def test_peaks_are_those_that_were_measured(job):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = torch_accuracy.predicted(dict(job))
    allocated = max(step["peak_alloc"] for step in job["steps"])
    reserved = max(step["peak_reserved"] for step in job["steps"])
    assert not [note for note in plan.notes if note["code"] == "partial_capture"]
    assert abs(plan.peak.allocated_bytes / allocated - 1) < 0.02
    assert abs(plan.peak.reserved_bytes / reserved - 1) < 0.10
    if job.get("nvml_mib"):
        assert abs(plan.peak.device_bytes / (job["nvml_mib"][0] * 2**20) - 1) < 0.10


@pytest.mark.skipif(not SAME_VERSION, reason="the rows were measured with PyTorch 2.11")
@pytest.mark.parametrize("model", ["seed_cnn", "unet", "gpt2", "densenet121", "seed_lstm", "vit_b_16"])
def test_the_largest_batch_is_never_too_large(model):
    [job] = [job for job in map(json.loads, (MEASURED / "torch_max_batch_h200.jsonl").open()) if job["model"] == model]
    plan = torch_accuracy.predicted(dict(job, batch=8), memory=f"{job['cap_gib']}GiB")
    assert 0.95 * job["max_ok"] <= plan.max_batch <= job["max_ok"]
