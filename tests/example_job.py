"""Runs a script of `examples/fit` as it stands, and keeps what it made: losses, number of updates, weights, the model as JSON.

In: the script; `--limit-mib`, as its reader sets it by `examples/fit/limited.py`; `--float64` for double precision throughout. Out: `NAME.json`
and `NAME.npz`, and for Keras `NAME_model.json`, where `--keep` says NAME. All is taken from the script's own names: `model`, `losses`
and `optimizer`, or, behind `model.fit`, what Keras noted in the model.
"""

import argparse
import json
import runpy
import sys
from pathlib import Path

import numpy

parser = argparse.ArgumentParser()
parser.add_argument("script", type=Path)
parser.add_argument("--limit-mib", type=int)
parser.add_argument("--float64", action="store_true")
parser.add_argument("--keep", type=Path, required=True)
args = parser.parse_args()

sys.path.insert(0, str(args.script.parent.parent))
import limited  # noqa: E402

with_torch = limited.uses_torch(args.script)
if args.limit_mib:
    limited.limit(args.script, args.limit_mib)
if args.float64 and with_torch:
    import torch

    torch.set_default_dtype(torch.float64)
elif args.float64:
    import keras

    keras.config.set_floatx("float64")

made = runpy.run_path(str(args.script), run_name="__main__")

model = made["model"]
if with_torch:
    weights = [parameter.detach().numpy() for parameter in model.parameters()]
    updates = next(iter(made["optimizer"].state.values()))["step"]
else:
    weights = model.get_weights()
    updates = (made["optimizer"] if "optimizer" in made else model.optimizer).iterations
    args.keep.with_name(f"{args.keep.name}_model.json").write_text(model.to_json())
losses = made["losses"] if "losses" in made else model.history.history["loss"]
args.keep.with_suffix(".json").write_text(json.dumps({"losses": losses, "updates": int(updates)}))
numpy.savez(args.keep.with_suffix(".npz"), *weights)
