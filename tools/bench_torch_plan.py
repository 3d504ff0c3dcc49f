"""How long a PyTorch plan takes, and how much host memory.

In: nothing. Out: medians over fresh processes, for ResNet-50 (batch 64), GPT-2 small (batch 8 of 512 tokens) and a Llama of seven
billion parameters (built on the meta device). `plan` is the whole call of `brimful.plan`, import of torch not counted; `own` the part of
it after the captures, which is all remedies and the largest batch; `again` a further plan for another batch, from the same capture; `memory`
what the process grew by at its peak, from where it was with torch, the model's library and the model loaded.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
import warnings

CASES = ("resnet50", "gpt2", "llama7b")
RUNS = 5


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(case: str) -> dict:
    warnings.simplefilter("ignore")
    import brimful
    import torch

    options: dict = {"device": "t4"}
    if case == "resnet50":
        import torchvision

        with torch.device("meta"):
            model = torchvision.models.resnet50()
        inputs = ((64, 3, 224, 224), (64,))
        options["loss"] = torch.nn.CrossEntropyLoss()
    else:
        import transformers

        transformers.logging.set_verbosity_error()
        with torch.device("meta"):
            if case == "gpt2":
                model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
            else:
                model = transformers.LlamaForCausalLM(transformers.LlamaConfig())
                options["device"] = "h200"
        model.train()
        inputs = {"input_ids": (8, 512), "labels": (8, 512)}
    import brimful.torch  # noqa: F401

    before = peak_mib()
    native = brimful._native.Capture.plan
    start = time.perf_counter()
    plan = brimful.plan(model, inputs, **options)
    whole = time.perf_counter() - start
    start = time.perf_counter()
    native(plan._capture, json.dumps(plan._request))
    own = time.perf_counter() - start
    start = time.perf_counter()
    plan.at(7)
    again = time.perf_counter() - start
    return {"plan": whole, "own": own, "again": again, "memory": peak_mib() - before}


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(child(sys.argv[1])))
        return
    print("            plan s   own ms   again ms   memory MiB   (medians of", RUNS, "processes)")
    for case in CASES:
        runs = []
        for _ in range(RUNS):
            run = subprocess.run([sys.executable, __file__, case], capture_output=True, text=True, check=True)
            runs.append(json.loads(run.stdout.splitlines()[-1]))
        median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        print(
            f"  {case:9} {median['plan']:7.2f}  {1000 * median['own']:7.0f}  {1000 * median['again']:9.0f}  {median['memory']:11.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
