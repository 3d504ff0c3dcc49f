"""`_native.keras_plan` answers what `brimful plan model.json --format json` prints, and refuses in the same words."""

import json
from pathlib import Path

import pytest
from brimful import _native

MODELS = Path(__file__).parent.parent / "fixtures" / "models" / "keras"
GIB = 1 << 30

QUESTIONS = [
    ({"batch": 64, "device": "cpu"}, ["--batch", 64, "--device", "cpu"]),
    ({"device": "t4", "inference": True}, ["--device", "t4", "--inference"]),
    (
        {"batch": 8, "optimizer": "sgd", "loss": "mean_squared_error", "precision": "mixed_float16", "memory_bytes": 3 * GIB},
        "--batch 8 --optimizer sgd --loss mean_squared_error --precision mixed_float16 --memory 3GiB --device cpu".split(),
    ),
]


@pytest.mark.parametrize("request_fields, options", QUESTIONS)
def test_it_is_the_answer_of_the_command(brimful_command, request_fields, options):
    model = MODELS / "seed_cnn28.json"
    printed = json.loads(brimful_command("plan", model, *options, "--format", "json").stdout)
    assert json.loads(_native.keras_plan(model.read_text(), json.dumps(request_fields))) == printed


def test_a_request_of_nulls_is_a_plan_for_a_cpu():
    fields = ("batch", "optimizer", "loss", "device", "memory_bytes", "precision", "jit")
    model = (MODELS / "seed_mlp_small.json").read_text()
    report = json.loads(_native.keras_plan(model, json.dumps(dict.fromkeys(fields))))
    assert (report["job"]["batch"], report["device"]["usable_bytes"]) == (32, None)


def test_what_the_program_knows_of_xla_counts():
    model = (MODELS / "seed_mlp_small.json").read_text()

    def codes(jit):
        report = json.loads(_native.keras_plan(model, json.dumps({"device": "t4", "jit": jit})))
        return {note["code"] for note in report["assumptions"] + report["notes"]} & {"xla", "xla_default"}

    assert (codes(None), codes(False), codes(True)) == ({"xla_default"}, set(), {"xla"})


@pytest.mark.parametrize(
    "request_fields, options",
    [
        ({"optimizer": "addam"}, ["--optimizer", "addam"]),
        ({"loss": "mee"}, ["--loss", "mee"]),
        ({"device": "rtx4900"}, ["--device", "rtx4900"]),
        ({"precision": "float16"}, ["--precision", "float16"]),
        ({"memory_bytes": 100, "device": "cpu"}, ["--memory", "100", "--device", "cpu"]),
        ({"memory_bytes": 1000 * GIB, "device": "t4"}, ["--memory", "1000GiB", "--device", "t4"]),
    ],
)
def test_it_refuses_in_the_words_of_the_command(brimful_command, request_fields, options):
    model = MODELS / "seed_mlp_small.json"
    with pytest.raises(ValueError) as refused:
        _native.keras_plan(model.read_text(), json.dumps(request_fields))
    assert str(refused.value) in brimful_command("plan", model, *options).stderr


@pytest.mark.parametrize("model", ["", "{}", "[1, 2", '{"class_name": "Sequential"}'])
def test_a_text_that_is_no_model_is_refused(model):
    with pytest.raises(ValueError):
        _native.keras_plan(model, "{}")


def test_what_keras_writes_is_planned(saved):
    for name, parameters in saved.parameters.items():
        report = json.loads(_native.keras_plan((saved.folder / f"{name}.json").read_text(), '{"batch": 16}'))
        assert report["model"]["parameters"] == parameters, name
