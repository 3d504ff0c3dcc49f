"""`make demo`, with one epoch instead of three: every chapter comes out as told, and one that does not ends it with 1."""

import importlib.util
import subprocess
import sys

import pytest
from conftest import ROOT

DEMO = ROOT / "tools" / "demo.py"


@pytest.fixture
def demo():
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_story_is_told_to_its_end(tmp_path):
    pytest.importorskip("tensorflow")
    command = [sys.executable, str(DEMO), "--epochs", "1", "--folder", str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-3000:]
    expected = [
        "Does not fit: needs",
        "ran out: the batch, or its activations, are too large",
        "The plan of this model",
        "brimful: asked 128, running",
    ]
    places = [told.stdout.find(sentence) for sentence in [*expected, "each sample counted once", "\nDone in "]]
    assert -1 not in places and places == sorted(places), told.stdout
    assert {"cnn.keras", "plain.log", "plain.brimful", "fit.csv", "unlimited.csv"} <= {file.name for file in tmp_path.iterdir()}


def test_a_script_that_does_not_do_its_part_ends_it(demo, tmp_path, monkeypatch, capsys):
    script = tmp_path / "nothing.py"
    script.write_text("print('nothing')\n")
    monkeypatch.setattr(demo, "SCRIPT", script)
    monkeypatch.setattr(sys, "argv", ["demo.py", "--folder", str(tmp_path / "files")])
    assert demo.main() == 1
    assert "The demo went wrong: expected: the model is saved" in capsys.readouterr().err


def test_losses_that_differ_end_it(demo, tmp_path):
    for name, loss in (("fit", 0.5), ("unlimited", 0.49)):
        (tmp_path / f"{name}.csv").write_text(f"epoch,loss\n0,{loss}\n")
    with pytest.raises(demo.WentWrong, match="the losses of 1 epochs agree"):
        demo.compare(tmp_path, "true", 1)
