"""Plan every measured PyTorch job without a GPU and compare with what a real GPU used.

In: `fixtures/measured/torch_*.jsonl` (or files of the same form, from `measure_torch.py`). Out: a table, as text. Needs the package, torch,
torchvision and transformers.

    python tools/torch_accuracy.py [--rows] [FILE…]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import pathlib
import warnings

import brimful
import torch
import torch_jobs

MIB = 2**20
MEASURED = pathlib.Path(__file__).parent.parent / "fixtures" / "measured"
FILES = ("torch_h200.jsonl", "torch_variants_h200.jsonl", "torch_others_h200.jsonl", "torch_later_h200.jsonl")
# Below this a few workspaces are a large share: the difference itself is what counts.
LARGE_BYTES = 300 * MIB


def predicted(job: dict, **options) -> brimful.torch.Plan:
    """The plan for a measured job, as a user would ask for it."""
    # These read their weights while they are built.
    built_on = "cpu" if job["model"].startswith("regnet") else "meta"
    if job["model"] not in torch_jobs.TRANSFORMERS:
        job.pop("seq", None)
    with torch.device(built_on):
        model, kind, size = torch_jobs.make_model(job)
    if job.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)
    if job.get("variant") == "frozen":
        torch_jobs.freeze_backbone(model)
    dtype = torch.bfloat16 if job.get("dtype") == "bf16_pure" else torch.float32
    batch = torch_jobs.make_batch(kind, size, job.get("batch", 8), dtype, "meta")
    scaler = torch.amp.GradScaler("cpu") if job.get("dtype") == "fp16" else None
    if job.get("variant") == "expandable":
        options["alloc_conf"] = "expandable_segments:True"
    inference = job.get("variant") == "inference"
    return brimful.plan(
        model,
        batch,
        step=torch_jobs.make_step(job, kind, scaler),
        optimizer=torch_jobs.OPTIMIZERS[job["opt"]],
        mode="inference" if inference else "train",
        compile=job.get("variant") == "compile",
        **{"device": "h200", **options},
    )


def name_of(job: dict) -> str:
    parts = [job["model"], job["batch"], job["opt"], job["dtype"], job.get("seq") or ""]
    parts += ["ckpt" if job.get("ckpt") else "", "channels_last" if job.get("channels_last") else "", job.get("variant") or ""]
    return " ".join(str(part) for part in parts if part != "")


def compare(path: pathlib.Path, show_rows: bool) -> None:
    rows = []
    for line in path.open():
        job = json.loads(line)
        if "steps" not in job:
            continue
        allocated = max(step["peak_alloc"] for step in job["steps"])
        reserved = max(step["peak_reserved"] for step in job["steps"])
        device = job.get("nvml_mib") or []
        name, variant = name_of(job), job.get("variant") or "training"
        peak = predicted(job).peak
        row = {
            "variant": variant,
            "measured": allocated,
            "allocated": peak.allocated_bytes / allocated - 1,
            "reserved": peak.reserved_bytes / reserved - 1,
            "device": peak.device_bytes / (device[0] * MIB) - 1 if device else None,
            "off_mib": (peak.allocated_bytes - allocated) / MIB,
        }
        rows.append(row)
        if show_rows:
            print(
                f"  {name:48} {allocated / MIB:8.0f} MiB  allocated {row['allocated']:+7.2%}  reserved {row['reserved']:+7.2%}", flush=True
            )
    print(f"{path.name}: {len(rows)} rows")
    for variant in dict.fromkeys(row["variant"] for row in rows):
        chosen = [row for row in rows if row["variant"] == variant]
        large = [row for row in chosen if row["measured"] > LARGE_BYTES]
        print(f"  {variant}: {len(large)} rows above 300 MiB")
        for part in ("allocated", "reserved", "device"):
            errors = sorted(abs(row[part]) for row in large if row[part] is not None)
            if errors:
                under = sum(row[part] < -0.05 for row in large if row[part] is not None)
                print(
                    f"    {part:9} median {errors[len(errors) // 2]:6.2%}  90th percentile {errors[math.ceil(0.9 * len(errors)) - 1]:6.2%}  "
                    f"worst {errors[-1]:6.2%}  under by more than 5 %: {under}"
                )
        small = [abs(row["off_mib"]) for row in chosen if row["measured"] <= LARGE_BYTES]
        if small:
            print(f"    {len(small)} smaller rows: worst {max(small):.1f} MiB")


def largest_batches(path: pathlib.Path) -> None:
    """The largest batch that is proposed against the largest that trained."""
    print(f"{path.name}: largest batch proposed / true")
    for line in path.open():
        job = json.loads(line)
        job["batch"] = job.get("batch") or 8
        proposed = predicted(dict(job), memory=f"{job['cap_gib']}GiB").max_batch
        verdict = "" if proposed <= job["max_ok"] else "  TOO LARGE"
        print(
            f"  {job['model']:12} {job['opt']:9} {job['dtype']:5} {proposed:6} / {job['max_ok']:6}  {proposed / job['max_ok']:7.1%}{verdict}",
            flush=True,
        )


def main() -> None:
    warnings.simplefilter("ignore")
    with contextlib.suppress(ImportError):
        import transformers

        transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    arguments = argparse.ArgumentParser()
    arguments.add_argument("files", nargs="*", type=pathlib.Path)
    arguments.add_argument("--rows", action="store_true", help="show every row")
    arguments.add_argument("--largest", action="store_true", help="only the largest batches")
    options = arguments.parse_args()
    if not options.largest:
        for path in options.files or [MEASURED / name for name in FILES]:
            compare(path, options.rows)
    if not options.files:
        largest_batches(MEASURED / "torch_max_batch_h200.jsonl")


if __name__ == "__main__":
    main()
