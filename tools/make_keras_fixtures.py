"""Makes the Keras fixtures of the import tests, with Keras's own answers beside them.

    python tools/make_keras_fixtures.py                  # fixtures/models/keras_extra/
    python tools/make_keras_fixtures.py --applications DIR   # every keras.applications model, for a local check

Each NAME.json (or NAME.keras) is a model; expected.json says for each what Keras computes: parameters, weights, the
order in which layers run, and the shapes and types of their results. Made with Keras 3.15.1 on TensorFlow 2.21.
"""

import argparse
import inspect
import io
import json
import os
import pathlib
import zipfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
from keras import layers as L
from keras_fixtures import ARCHIVES, MODELS, ODD

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "models"


def graph(model):
    """The functional graph inside a model."""
    return model._functional if isinstance(model, keras.Sequential) else model


def shown(weight, how):
    return f"{tuple(weight.shape)} {weight.dtype} {how}"


def answers(model):
    """What Keras says about a model."""
    function = graph(model)
    weights = {id(w) for w in model.weights}
    trainable = {id(w) for w in model.trainable_variables}
    runs = []
    for depth in sorted(function._nodes_by_depth, reverse=True):
        for node in function._nodes_by_depth[depth]:
            if node.operation and not node.is_input:
                runs.append([node.operation.name, [[list(t.shape), str(t.dtype)] for t in node.outputs]])
    return {
        "class": type(model).__name__,
        "params": model.count_params(),
        "trainable": int(sum(keras.ops.size(w) for w in model.trainable_variables)),
        "seeds": sum(1 for v in model.variables if id(v) not in weights and v.name == "seed_generator_state"),
        # Those that are trained come first, in Keras's order: it is that of the updates.
        "weights": [shown(w, "trainable") for w in model.trainable_variables]
        + sorted(shown(w, "fixed") for w in model.weights if id(w) not in trainable),
        "outputs": [[list(t.shape), str(t.dtype)] for t in function.outputs],
        "runs": runs,
    }


def write_archive(model, path):
    """A .keras archive without the weights' bytes, which nothing reads: fixtures stay small."""
    whole = io.BytesIO()
    scratch = path.with_suffix(".whole.keras")
    model.save(scratch)
    with zipfile.ZipFile(scratch) as source, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as target:
        for name in ("metadata.json", "config.json"):
            target.writestr(zipfile.ZipInfo(name), source.read(name), zipfile.ZIP_DEFLATED)
    scratch.unlink()
    path.write_bytes(whole.getvalue())


def fixtures():
    out = FIXTURES / "keras_extra"
    out.mkdir(exist_ok=True)
    expected = {}
    for name, make in MODELS.items():
        keras.utils.clear_session()
        model = make()
        (out / f"{name}.json").write_text(model.to_json())
        expected[name] = answers(model)
        print(name, expected[name]["params"])
    for make in ODD:
        keras.utils.clear_session()
        (out / f"{make.__name__}.json").write_text(make().to_json())
    for name, make in ARCHIVES.items():
        keras.utils.clear_session()
        write_archive(make(), out / f"{name}.keras")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in expected.items())
    (out / "expected.json").write_text("{\n" + lines + "\n}\n")
    names = sorted(name for name in dir(L) if inspect.isclass(getattr(L, name)))
    head = f"# Every class of keras.layers in Keras {keras.__version__}, by tools/make_keras_fixtures.py.\n"
    (FIXTURES / "keras_layers_3.15.txt").write_text(head + "\n".join(names) + "\n")


def applications(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    expected = {}
    for name in sorted(dir(keras.applications)):
        make = getattr(keras.applications, name)
        if not inspect.isfunction(make):
            continue
        keras.utils.clear_session()
        model = make(weights=None)
        (folder / f"{name}.json").write_text(model.to_json())
        expected[name] = answers(model)
        print(name, expected[name]["params"], flush=True)
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications")
    arguments = parser.parse_args()
    if arguments.applications:
        applications(arguments.applications)
    else:
        fixtures()
