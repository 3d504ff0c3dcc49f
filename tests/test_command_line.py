"""The mistakes that a newcomer makes. What the documentation tells them to do is tried by test_docs.py."""

import json

import pytest


def refused(answer):
    """Asserts that it ended with 2, one line on standard error and nothing else, and gives that line."""
    assert (answer.returncode, answer.stdout) == (2, ""), answer.stderr
    assert "panicked" not in answer.stderr and "backtrace" not in answer.stderr
    assert answer.stderr.startswith("error: ") and answer.stderr.endswith("\n")
    assert answer.stderr.count("\n") == 1 and ". " not in answer.stderr, f"not one sentence: {answer.stderr}"
    return answer.stderr


#: What is handed over, and what the answer must say.
MISTAKES = {
    "absent.keras": "there is no such file",
    "cut.keras": "the file is damaged or was cut short, save the model again",
    "notes.txt": "this is not a model file",
    "exported/variables": "is a folder",
    "exported": "is a TensorFlow SavedModel",
    "exported/saved_model.pb": "this is a TensorFlow SavedModel",
    "only.weights.h5": "this is an HDF5 file without a model's configuration, such as weights alone",
    "subclassed.keras": "build it with the functional API",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_file_gets_one_sentence(name, brimful, saved):
    """Files that Keras wrote but that hold no graph, and files that are none: exit code 2 and what to do."""
    (saved.folder / "cut.keras").write_bytes((saved.folder / "dense.keras").read_bytes()[:5000])
    (saved.folder / "notes.txt").write_text("Dear diary, today training ran out of memory.\n")
    said = refused(brimful("plan", name, "--device", "cpu", cwd=saved.folder))
    assert name in said and MISTAKES[name] in said, said


def test_an_older_file_is_the_same_model(brimful, saved):
    """What `model.save` writes as `.h5` has the layers, the loss and the optimizer of the archive."""
    for name in saved.parameters:
        archive, older = (
            brimful("plan", saved.folder / f"{name}.{kind}", "--device", "cpu", "--format", "json") for kind in ("keras", "h5")
        )
        archive, older = json.loads(archive.stdout), json.loads(older.stdout)
        for key in ("peak", "breakdown", "layers"):
            assert older[key] == archive[key], f"{name}: {key}"


def test_any_cut_of_a_file_gets_one_sentence(brimful, saved, tmp_path):
    """A download that stopped somewhere is told as such, wherever it stopped."""
    whole = (saved.folder / "lstm.keras").read_bytes()
    for share in range(20):
        file = tmp_path / "cut.keras"
        file.write_bytes(whole[: len(whole) * share // 20])
        refused(brimful("plan", file, "--device", "cpu"))


def test_an_unknown_device_gets_one_sentence(brimful, saved):
    """It names the device that was meant, or where to look."""
    file = saved.folder / "dense.keras"
    assert "did you mean rtx-4090" in refused(brimful("plan", file, "--device", "rtx4900"))
    assert "'brimful devices' lists" in refused(brimful("plan", file, "--device", "abacus"))
