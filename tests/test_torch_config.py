"""`brimful plan config.json`: models of transformers from their configuration alone, without weights and without the network."""

import json
import subprocess
import sys

import pytest
from conftest import BINARY, ROOT

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

MIB = 1 << 20
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 200}
CONFIGS = {
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SMALL},
    "bert": {"model_type": "bert", **SMALL},
    "classifier": {"model_type": "bert", "architectures": ["BertForSequenceClassification"], **SMALL},
    "questions": {"model_type": "bert", "architectures": ["BertForQuestionAnswering"], **SMALL},
    "t5": {"model_type": "t5", "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 200},
    "vit": {"model_type": "vit", "architectures": ["ViTForImageClassification"], **SMALL, "image_size": 32, "patch_size": 8},
}
NAMES = {
    "llama": "LlamaForCausalLM",
    "bert": "BertForMaskedLM",
    "classifier": "BertForSequenceClassification",
    "questions": "BertForQuestionAnswering",
    "t5": "T5ForConditionalGeneration",
    "vit": "ViTForImageClassification",
}
# How much a process may take beyond PyTorch itself to plan 6.7 billion parameters.
MOST_BYTES = 1 << 30
MEASURED = """
import json, resource, sys, torch
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from brimful.torch.command import run
text, code = run([sys.argv[1]])
print(json.dumps([json.loads(text)["model"]["parameters"], (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("configs")
    for name, config in CONFIGS.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def run(folder, python_with_torch):
    def run(*args):
        return python_with_torch.run(BINARY, "plan", *args, "--device", "t4", "--format", "json", cwd=folder)

    return run


def report(answer):
    assert (answer.returncode, answer.stderr) == (0, ""), answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize("name", CONFIGS)
def test_each_kind_of_model_is_trained_with_a_loss_of_its_own(run, name):
    found = report(run(name, "--batch", 2))
    assert found["model"]["name"] == NAMES[name]
    assert found["breakdown"]["gradients"] + found["breakdown"]["optimizer_state"] > 0
    codes = [note["code"] for note in [*found["assumptions"], *found["notes"]]]
    assert "stand_in_loss" not in codes and "partial_capture" not in codes


@pytest.mark.parametrize("name", ["llama", "t5", "vit"])
def test_inference(run, name):
    found = report(run(name, "--batch", 2, "--inference"))
    assert found["job"]["mode"] == "inference" and found["breakdown"]["optimizer_state"] == 0


def test_the_file_and_its_folder_are_the_same(run):
    answer = report(run("llama/config.json", "--batch", 2, "--seq", 64))
    assert answer == report(run("llama", "--batch", 2, "--seq", 64))
    assert answer["assumptions"] == []


def test_defaults_are_said(run):
    found = report(run("llama"))
    assert found["job"]["batch"] == 8
    assert [note["code"] for note in found["assumptions"]] == ["default_batch", "default_seq"]
    longer = report(run("llama", "--seq", 4096, "--batch", 1))
    assert "long_seq" in [note["code"] for note in longer["assumptions"]]


def test_checkpointing_keeps_less(run):
    options = ("llama", "--batch", 16, "--seq", 512)
    assert report(run(*options, "--checkpointing"))["peak"]["allocated_bytes"] < report(run(*options))["peak"]["allocated_bytes"]


def test_precision_and_own_inputs(run):
    found = report(run("vit", "--input", "pixel_values=3x32x32", "--input", "labels=:int64", "--batch", 4, "--precision", "bfloat16"))
    assert found["job"]["precision"] == "bfloat16" and found["job"]["batch"] == 4


def test_mistakes_get_one_sentence(run, folder):
    for name, config, said in (
        ("unknown", {"model_type": "abacus"}, "knows no model_type 'abacus'"),
        ("custom", {"model_type": "abacus", "auto_map": {}}, "brings code of its own"),
        ("contradiction", {"model_type": "llama", **SMALL, "num_attention_heads": 3, "num_hidden_layers": "two"}, "contradiction.json"),
    ):
        (folder / f"{name}.json").write_text(json.dumps(config))
        answer = run(f"{name}.json")
        assert (answer.returncode, answer.stdout) == (2, ""), answer.stdout
        assert said in answer.stderr and answer.stderr.count("\n") == 1, answer.stderr


def test_seven_billion_parameters_take_no_memory():
    request = {"config": str(ROOT / "examples/llama_7b/config.json"), "seq": 512, "batch": 1, "device": "a100-80gb", "format": "json"}
    answer = subprocess.run([sys.executable, "-c", MEASURED, json.dumps(request)], check=False, capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr
    parameters, peak_bytes = json.loads(answer.stdout)
    assert parameters > 6_500_000_000
    assert peak_bytes <= MOST_BYTES, f"{peak_bytes / MIB:.0f} MiB"
