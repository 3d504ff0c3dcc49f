"""What a newcomer does first, and the mistakes that they make."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import BINARY, ROOT

COMMANDS = ("brimful", "cargo run --release --")
#: What pages need beside the command.
NEEDED = {"docs/torch.md": ("torch", "transformers")}


def documented_commands():
    """Calls of the command in code blocks of the README and docs/: `sh`, `console` or indented."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        fence = None
        for line in page.read_text().replace("\\\n", " ").splitlines():
            if line.lstrip().startswith("```"):
                fence = line.strip("` ") if fence is None else None
                continue
            shown = fence in ("sh", "console") or (fence is None and line.startswith("    "))
            command = line.strip().removeprefix("$ ")
            if shown and command.startswith(tuple(start + " " for start in COMMANDS)):
                name = str(page.relative_to(ROOT))
                missing = [library for library in NEEDED.get(name, ()) if importlib.util.find_spec(library) is None]
                marks = [pytest.mark.skip(reason=f"no {missing[0]}")] if missing else []
                found.append(pytest.param(command, id=f"{name}: {command}", marks=marks))
    return found


def run_as_written(command, folder):
    """Runs a documented command in a folder like the repository, where what it writes does no harm."""
    for name in ("examples", "fixtures", "docs"):
        (folder / name).symlink_to(ROOT / name)
    for start in COMMANDS:
        command = command.removeprefix(start)
    # What comes after a pipe is another program.
    words = shlex.split(command.split(" | ")[0], comments=True)
    environment = {**os.environ, "BRIMFUL_PYTHON": sys.executable}
    return subprocess.run([BINARY, *words], check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_the_first_command_of_the_readme_answers(tmp_path):
    """The first thing in the README works as it stands, and begins with the verdict."""
    first = documented_commands()[0]
    assert first.id.startswith("README.md: cargo run --release -- plan examples/vision_cnn.json")
    answer = run_as_written(first.values[0], tmp_path)
    assert (answer.returncode, answer.stderr) == (1, "")
    assert re.match(r"Does not fit: needs [\d.]+ GiB of [\d.]+ GiB usable on Tesla T4", answer.stdout)
    assert "The largest batch that fits is" in answer.stdout and "Cheapest way to fit" in answer.stdout


@pytest.mark.parametrize("command", documented_commands())
def test_documented_commands_run(command, tmp_path):
    """Each command that the documentation shows answers: it fits or it does not, but it is no error."""
    answer = run_as_written(command, tmp_path)
    assert answer.returncode in (0, 1), answer.stderr
    assert answer.stderr == ""


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
    "old.h5": "this is an HDF5 file",
    "subclassed.keras": "build it with the functional API",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_file_gets_one_sentence(name, brimful, saved):
    """Files that Keras wrote but that hold no graph, and files that are none: exit code 2 and what to do."""
    (saved.folder / "cut.keras").write_bytes((saved.folder / "dense.keras").read_bytes()[:5000])
    (saved.folder / "notes.txt").write_text("Dear diary, today training ran out of memory.\n")
    said = refused(brimful("plan", name, "--device", "cpu", cwd=saved.folder))
    assert name in said and MISTAKES[name] in said, said


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
