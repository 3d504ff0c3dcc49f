"""The agent in real processes: what it sends, what the job sees of it (nothing), and what cannot stop a job.

Each test binds the socket that `brimful run` would bind. Jobs with a framework do many things in one process, since importing one takes
seconds.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from itertools import groupby
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PACKAGE = Path(__import__("brimful").__file__).parent
BOOTSTRAP = str(PACKAGE / "_bootstrap")
JOBS = TESTS / "agent_jobs"

#: Trains without a framework, by the agent's own door.
TRAIN = """\
import os, signal, sys, time
from brimful.agent.progress import progress
class Optimizer: pass
optimizer = Optimizer()
def train(updates):
    for _ in range(updates):
        progress.updated(optimizer)
"""


def names_us(text):
    """Whether Brimful shows; the folder that this is in may well be called so."""
    return "brimful" in text.replace(str(ROOT), "")


class Ear:
    """A socket at which `brimful run` would listen."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.datagrams = []
        self.is_over = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.hear)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.socket.close()

    def hear(self):
        self.socket.settimeout(0.1)
        while True:
            try:
                self.datagrams.append(self.socket.recv(10_000))
            except TimeoutError:
                if self.is_over.is_set():
                    return

    @property
    def messages(self):
        return [json.loads(datagram) for datagram in self.datagrams]


@pytest.fixture
def ear(tmp_path):
    return Ear(tmp_path / "agent")


def environment(path=None, **variables):
    """That of a job under `brimful run`; without a path, that of the same job alone."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "BRIMFUL_RUN", "BRIMFUL_FIT")}
    run = {} if path is None else {"PYTHONPATH": BOOTSTRAP, "BRIMFUL_RUN": json.dumps({"socket": str(path), "v": 1})}
    return {**kept, **quiet, **run, **variables}


def python(*arguments, path=None, **variables):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment(path, **variables), capture_output=True, text=True, timeout=120)


def of_kind(messages, kind, pid=None):
    return [message for message in messages if message["kind"] == kind and pid in (None, message["pid"])]


def last_step(messages, pid=None):
    return of_kind(messages, "step", pid)[-1]["step"]


def own_lines(text):
    """Without what frameworks say with the time or the number of the process in it, and names of files that they make up."""
    text = re.sub(r"__autograph_generated_file\w+", "__autograph_generated_file", text)
    return [line for line in text.splitlines() if not re.match(r"[IWE]\d{4} |WARNING: All log", line)]


def check_form(datagrams):
    last = {}
    for datagram in datagrams:
        assert len(datagram) <= 4096
        message = json.loads(datagram)
        assert message["v"] == 1 and message["pid"] > 0 and message["ns"] > 0
        if message["kind"] == "step":
            assert message["step"] >= last.get(message["pid"], 0)
            last[message["pid"]] = message["step"]


def check_job_is_as_without(job, run, plain):
    assert (run.returncode, run.stdout) == (plain.returncode, plain.stdout)
    assert own_lines(run.stderr) == own_lines(plain.stderr)
    assert "Traceback" in plain.stderr and str(job) in plain.stderr


def test_pytorch(ear):
    with ear:
        job = JOBS / "torch_job.py"
        run = python(job, "--token=hf_secret", path=ear.path, MY_SECRET="hf_hidden")
    seen = json.loads(run.stdout)
    messages = ear.messages
    check_form(ear.datagrams)
    assert run.returncode == 1 and run.stderr.rstrip().endswith("ValueError: this row cannot be read")
    assert not names_us(run.stderr)
    assert {message["pid"] for message in messages} == {seen["pid"], seen["child"][0]}
    frameworks = of_kind(messages, "framework")
    assert [message["name"] for message in frameworks] == ["torch"] * 2 and frameworks[0]["version"].startswith("2.")
    assert last_step(messages, seen["pid"]) == seen["steps"]
    assert last_step(messages, seen["child"][0]) == seen["child"][1]
    steps = of_kind(messages, "step", seen["pid"])
    fourth = next(message for message in steps if message["step"] == 4)
    assert seen["waited_us"][0] <= fourth["waited_us"] <= seen["waited_us"][1]
    assert all(before["ns"] <= after["ns"] for before, after in zip(steps, steps[1:]))
    assert {(message["epoch"], message["loss"]) for message in steps} == {(None, None)}
    assert [message["begins"] for message in of_kind(messages, "phase")] == [True, False]
    assert of_kind(messages, "memory") == []
    assert b"secret" not in b"".join(ear.datagrams) and b"hidden" not in b"".join(ear.datagrams)

    plain = python(job, "--token=hf_secret")
    # Standard output has the numbers of processes, and times.
    assert plain.returncode == run.returncode and json.loads(plain.stdout)["steps"] == seen["steps"]
    assert own_lines(run.stderr) == own_lines(plain.stderr)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_keras(ear, backend):
    job = JOBS / "keras_job.py"
    with ear:
        run = python(job, path=ear.path, KERAS_BACKEND=backend)
    messages = ear.messages
    check_form(ear.datagrams)
    assert run.stderr.rstrip().endswith("ValueError: this batch is the last"), run.stderr
    assert {"keras", backend} <= {message["name"] for message in of_kind(messages, "framework")}
    several = 0 if backend == "torch" else 20
    # The callback that fails at the fifth batch comes before the agent's.
    assert last_step(messages) == 30 + 1 + several + 4
    phases = [(message["name"], message["begins"]) for message in of_kind(messages, "phase")]
    evaluated = [("evaluate", True), ("evaluate", False)] * 3
    trained = [("train", True), ("train", False)]
    expected = [("train", True), *evaluated, ("train", False), ("predict", True), ("predict", False), ("save", True), ("save", False)]
    assert phases == expected + trained * (1 if backend == "torch" else 2)
    steps = of_kind(messages, "step")
    assert [epoch for epoch, _ in groupby(message["epoch"] for message in steps if message["step"] <= 30)] == [0, 1, 2]
    assert all(isinstance(message["loss"], float) for message in steps)
    waits = [message["waited_us"] for message in steps]
    assert waits == [None] * len(waits) if backend == "tensorflow" else waits == sorted(waits) and waits[-1] > 0
    if backend == "tensorflow":
        check_job_is_as_without(job, run, python(job, KERAS_BACKEND=backend))


def test_loops_with_tensorflow(ear):
    job = JOBS / "tensorflow_job.py"
    with ear:
        run = python(job, path=ear.path, KERAS_BACKEND="tensorflow", TF_CPU_ALLOCATOR_USE_BFC="1")
    messages = ear.messages
    check_form(ear.datagrams)
    seen = json.loads(run.stdout)
    assert seen["steps"] == seen["iterations"] == last_step(messages), run.stderr
    # A batch takes 10 ms in a loop of Python's: ten of them.
    assert 100_000 <= of_kind(messages, "step")[-1]["waited_us"]
    memory = of_kind(messages, "memory")
    assert memory and all(message["framework"] == "tensorflow" and message["device"] == "CPU:0" for message in memory)
    assert all(0 < message["allocated"] <= message["peak"] for message in memory)
    times = [message["ns"] for message in memory]
    assert all(after - before >= 99_000_000 for before, after in zip(times, times[1:]))
    check_job_is_as_without(job, run, python(job, KERAS_BACKEND="tensorflow", TF_CPU_ALLOCATOR_USE_BFC="1"))


def test_jax_counts_the_steps_that_are_marked(ear):
    script = """\
import jax
step = jax.jit(lambda x: x + 1)
x = step(0)
for number in range(7):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        x = step(x)
try:
    with jax.profiler.StepTraceAnnotation("train", step_num=7):
        raise ValueError
except ValueError:
    print(x)
"""
    with ear:
        run = python("-c", script, path=ear.path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "8\n", "")
    assert [message["name"] for message in of_kind(ear.messages, "framework")] == ["jax"]
    assert last_step(ear.messages) == 7


def test_both_ways_in_at_once(ear, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""\
import torch
weights = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weights], lr=0.1)
for _ in range(9):
    weights.sum().backward()
    optimizer.step()
import brimful, brimful.agent
from brimful import agent
print(agent.attach.__module__)
""")
    path = os.pathsep.join([BOOTSTRAP, str(PACKAGE.parent)])
    with ear:
        run = python(script, path=ear.path, PYTHONPATH=path, BRIMFUL_FIT='{"memory": "auto", "allow": "exact"}')
    assert (run.returncode, run.stdout) == (0, "brimful.agent\n")
    assert f"{script}:6 ran as it is" in run.stderr and last_step(ear.messages) == 9


HOOKS = """\
import importlib.util, sys, traceback
from brimful.hooks import call_after_import
called = []
def wrong(module):
    raise LookupError("of the hook")
call_after_import({"mine": lambda module: called.append(module.VALUE), "broken": called.append})
call_after_import({"mine": wrong, "sys": lambda module: called.append(module.__name__)}, "is not followed")
importlib.util.find_spec("mine")
print(called)
import mine, importlib
importlib.reload(mine)
print(called)
try:
    import broken
except ZeroDivisionError as error:
    print([frame.name for frame in traceback.extract_tb(error.__traceback__)], called)
"""


def test_hooks_are_called_once_after_an_import_and_leave_no_frame(tmp_path):
    (tmp_path / "mine.py").write_text("VALUE = 5")
    (tmp_path / "broken.py").write_text("1 / 0")
    run = python("-c", HOOKS, PYTHONPATH=os.pathsep.join([str(PACKAGE.parent), str(tmp_path)]))
    lines = run.stdout.splitlines()
    assert lines[:2] == ["['sys']", "['sys', 5]"], run.stderr
    assert not names_us(lines[2]) and "exec_and_call" not in lines[2] and lines[2].endswith("'<module>'] ['sys', 5]")
    assert run.stderr == "brimful: mine is not followed: LookupError: of the hook\n"


SEES = """\
import json, os, sys
names = ["brimful", "brimful.agent", "json", "socket", "typing", "re", "threading", "logging", "numpy"]
found = [name for name in names if name in sys.modules]
print([sys.path, sys.argv, found, os.environ.get("BRIMFUL_RUN") is None])
"""


def test_a_process_without_a_framework_pays_for_little_and_sends_nothing(ear):
    script = SEES.replace("import json, os", "import os")
    with ear:
        run, child = python("-c", script, path=ear.path), python("-I", "-c", script, path=ear.path)
    plain = python("-c", script)
    extra = "'brimful.agent'"
    assert run.stdout == plain.stdout.replace("[],", f"[{extra}],").replace("True]", "False]")
    assert not names_us(child.stdout) and run.stderr == child.stderr == "" and ear.datagrams == []


def test_a_python_that_has_no_brimful_is_followed(ear, tmp_path):
    # The package is a copy that cannot be imported: whatever imports it fails.
    shutil.copytree(PACKAGE, tmp_path / "brimful", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (tmp_path / "brimful" / "__init__.py").write_text("raise RuntimeError('the package was imported')\n")
    (tmp_path / "path" / "jax").mkdir(parents=True)
    (tmp_path / "path" / "jax" / "__init__.py").write_text(
        "class profiler:\n    class StepTraceAnnotation:\n        def __exit__(self, *error):\n            pass\n"
    )
    code = "import sys, jax\nfor _ in range(3):\n    jax.profiler.StepTraceAnnotation().__exit__(None)\nassert 'brimful' not in sys.modules"
    path = os.pathsep.join([str(tmp_path / "brimful" / "_bootstrap"), str(tmp_path / "path")])
    environment = {**os.environ, "PYTHONPATH": path, "BRIMFUL_RUN": json.dumps({"socket": ear.path, "v": 1})}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    modules = sorted(file.stem for file in (PACKAGE / "agent").glob("*.py"))
    assert not [name for name in modules if re.search(r"^\s*from \. import", (PACKAGE / "agent" / f"{name}.py").read_text(), re.M)]


def test_without_the_variable_there_is_no_agent():
    run = python("-c", SEES + "print(len(sys.meta_path))", PYTHONPATH=BOOTSTRAP)
    plain = python("-c", SEES + "print(len(sys.meta_path))")
    assert (run.stdout, run.stderr) == (plain.stdout, "") and "agent" not in run.stdout


def test_the_users_sitecustomize_runs_as_it_does_without(ear, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = __file__")
    script = "import sitecustomize, sys; print(sys.mine, sitecustomize.__file__)"
    with ear:
        run = python("-c", script, path=ear.path, PYTHONPATH=os.pathsep.join([BOOTSTRAP, str(tmp_path)]))
    assert run.stdout == python("-c", script, PYTHONPATH=str(tmp_path)).stdout and str(tmp_path) in run.stdout


def test_steps_are_held_back_and_the_last_one_comes(ear):
    with ear:
        run = python("-c", TRAIN + "train(100_000)\nprogress.loss = float('-inf'); train(1); print(progress.step)", path=ear.path)
    steps = of_kind(ear.messages, "step")
    assert (run.stdout, run.stderr) == ("100001\n", "")
    assert steps[0]["step"] == 1 and steps[-1]["step"] == 100_001 and steps[-1]["loss"] == "-inf"
    times = [message["ns"] for message in steps]
    assert all(after - before >= 50_000_000 for before, after in zip(times[:-1], times[1:-1]))


FORKS = """
import multiprocessing
def other(updates):
    train(updates)
if __name__ == "__main__":
    train(5)
    if os.fork() == 0:
        sys.exit(3)  # Has nothing to say.
    os.wait()
    for way in ("fork", "spawn"):
        process = multiprocessing.get_context(way).Process(target=other, args=(7,))
        process.start()
        process.join()
        print(process.pid, process.exitcode)
    import threading
    time.sleep(0.1)  # What is sent is 50 ms apart.
    thread = threading.Thread(target=train, args=(2,))
    thread.start()
    thread.join()
    print(os.getpid(), flush=True)
    os._exit(4)
"""


def test_processes_count_for_themselves(ear, tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(TRAIN + FORKS)
    with ear:
        run = python(script, path=ear.path)
    (forked, _), (spawned, _), (own,) = (line.split() for line in run.stdout.splitlines())
    messages = ear.messages
    assert (run.returncode, run.stderr) == (4, "")
    assert {str(message["pid"]) for message in messages} == {forked, spawned, own}
    assert last_step(messages, int(forked)) == last_step(messages, int(spawned)) == 7
    # What leaves by `os._exit` may keep its last 50 ms to itself.
    assert last_step(messages, int(own)) >= 6


@pytest.mark.parametrize(
    "how",
    [
        "raise KeyboardInterrupt",
        "raise SystemExit(7)",
        "1 / 0",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "sys.stderr.close(); sys.stdout.close()",
    ],
)
def test_the_job_ends_as_it_does_without(ear, how):
    light = "import os, signal, sys\ntrain = lambda updates: None\n"
    with ear:
        run = python("-c", TRAIN + f"train(3)\n{how}", path=ear.path)
    plain = python("-c", light + "\n" * (TRAIN.count("\n") - 2) + f"train(3)\n{how}")
    assert (run.returncode, run.stdout, run.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    # A signal that ends Python ends the agent.
    assert last_step(ear.messages) == (1 if "SIGTERM" in how else 3)


def test_a_handler_of_a_signal_may_save_while_a_step_is_sent(ear):
    script = """
from brimful.agent.link import link
def save(*_):
    progress.begin("save"); progress.end("save"); train(1)
signal.signal(signal.SIGUSR1, save)
send = link.send
def send_and_be_interrupted(*args, **kwargs):
    signal.raise_signal(signal.SIGUSR1) if args[0] == "step" and not progress.phases else None
    return send(*args, **kwargs)
link.send = send_and_be_interrupted
train(1)
print(progress.step)
"""
    with ear:
        run = python("-c", TRAIN + script, path=ear.path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "2\n", "")
    # What is sent at the end is interrupted as well, and trains a third time.
    assert last_step(ear.messages) >= 2


def test_a_socket_that_nobody_reads_stops_nothing(ear):
    run = python("-c", TRAIN + "for _ in range(50): time.sleep(0.051); train(1)\nprint(len(os.listdir('/proc/self/fd')))", path=ear.path)
    plain = python("-c", "import os; print(len(os.listdir('/proc/self/fd')))")
    assert (run.returncode, run.stdout, run.stderr) == (0, plain.stdout, "")
    with ear:
        pass
    assert 1 <= len(ear.messages) < 50 and last_step(ear.messages[:1]) == 1


def test_a_brimful_that_is_gone_stops_nothing(tmp_path):
    gone = tmp_path / "gone"
    Ear(gone).socket.close()  # Bound, and closed.
    for path in (tmp_path / "never", gone, tmp_path / ("x" * 200)):
        script = "from brimful.agent.link import link\ntrain(1); time.sleep(0.06); train(1); print(progress.step, link.paths)"
        run = python("-c", TRAIN + script, path=path)
        assert (run.returncode, run.stdout, run.stderr) == (0, "2 []\n", "")


@pytest.mark.parametrize("text", ["{", '{"v": 2, "socket": "/x"}', "[]", '{"v": 1, "socket": 5}', "[" * 100_000])
def test_a_variable_that_cannot_be_read_is_one_line(text):
    script = "import subprocess, sys; import brimful.agent.link; subprocess.run([sys.executable, '-c', 'import brimful.agent.link'])"
    run = python("-c", script, PYTHONPATH=os.pathsep.join([BOOTSTRAP, str(PACKAGE.parent)]), BRIMFUL_RUN=text)
    assert run.returncode == 0 and run.stdout == ""
    assert run.stderr.startswith("brimful: training is not followed: ") and run.stderr.count("\n") == 1


def test_an_error_of_the_agents_own_is_one_line(ear):
    script = """
from brimful.agent.progress import safely
def wrong(optimizer):
    raise LookupError("of the agent")
for _ in range(3):
    safely(wrong, optimizer)
train(2)
"""
    with ear:
        run = python("-c", TRAIN + script, path=ear.path)
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr == "brimful: training is not followed any more: LookupError: of the agent\n" and ear.datagrams == []


WATCHED = (
    TRAIN
    + "import brimful\nwith brimful.watch({output!r}) as watch:\n    train(40)\n    time.sleep(0.5)\n    train(2)\nprint('after', bool(watch.summary))"
)


def test_watching_that_fails_leaves_the_code_alone():
    broken = "sys.executable = '/nowhere/python'\n" + WATCHED.format(output=None)
    run = python("-c", "import sys\n" + broken, PYTHONPATH=str(PACKAGE.parent))
    assert (run.returncode, run.stdout) == (0, "after False\n")
    assert run.stderr.startswith("brimful: nothing is watched: ") and run.stderr.count("\n") == 1, run.stderr


def test_watching(tmp_path):
    if python("-m", "brimful", "watch", "--help", PYTHONPATH=str(PACKAGE.parent)).returncode:
        pytest.skip("this build has no `brimful watch`")
    output = tmp_path / "run.brimful"
    run = python("-c", WATCHED.format(output=str(output)), PYTHONPATH=str(PACKAGE.parent))
    assert run.returncode == 0 and run.stdout.endswith("after True\n"), run.stderr
    assert output.stat().st_size > 0 and run.stderr == ""
