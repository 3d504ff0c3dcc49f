"""`brimful fit -- COMMAND` with real processes: what the job sees of it (nothing), how it ends, and what the closing lines say.

How Keras then trains inside the budget is tested elsewhere; here `brimful.keras.api` is a stand-in that says how it was called.
"""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PACKAGE_FOLDER = str(Path(__import__("brimful").__file__).parent.parent)
FIT = [sys.executable, "-m", "brimful", "fit"]
TORCH_LINES = """\
brimful: the training loop at {place} ran as it is; these two lines would keep it inside the budget:
brimful:     step = brimful.torch.Step(model, loss, optimizer)
brimful:     loss = step(batch)
"""


@pytest.fixture
def job(tmp_path):
    """Runs a Python script in its own folder under `brimful fit`; `plainly` runs it without."""

    def run(script, *arguments, options=(), path=(), stdin="", plainly=False, python=sys.executable, **variables):
        (tmp_path / "train.py").write_text(script)
        return run_command(python, "train.py", *arguments, options=options, path=path, stdin=stdin, plainly=plainly, **variables)

    def run_command(*command, options=(), path=(), stdin="", plainly=False, **variables):
        command = [*([] if plainly else [*FIT, *options, "--"]), *command]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(path, variables), input=stdin, capture_output=True, text=True, timeout=120
        )

    run.command = run_command
    run.folder = tmp_path
    return run


def environment(path=(), variables=()):
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"}
    return {**os.environ, **quiet, **dict(variables), "PYTHONPATH": os.pathsep.join([*map(str, path), PACKAGE_FOLDER])}


def said(run):
    """The lines of Brimful; frameworks say what they like."""
    return "".join(line + "\n" for line in run.stderr.splitlines() if line.startswith("brimful:"))


SEES = """\
import json, os, sys
print(json.dumps([sys.argv, __name__, __file__, sys.path, os.getcwd(), sys.flags.isolated, sys.stdin.read()]))
"""


def test_the_script_sees_what_it_sees_without(job):
    for arguments in (["a", "--memory", "b c"], []):
        plain, fit = (job(SEES, *arguments, path=["/first", ""], stdin="rows", plainly=plainly) for plainly in (True, False))
        assert (fit.returncode, fit.stdout, fit.stderr) == (0, plain.stdout, "")


@pytest.mark.parametrize("how", [["-m", "train", "a"], ["-c", "import sys; print(sys.argv, sys.path, __name__)", "-I"]])
def test_modules_and_texts_run_as_they_do_without(job, how):
    (job.folder / "train.py").write_text(SEES)
    plain, fit = (job.command(sys.executable, *how, plainly=plainly) for plainly in (True, False))
    assert (fit.returncode, fit.stdout, fit.stderr) == (0, plain.stdout, "")


def test_the_users_sitecustomize_runs_as_it_does_without(job):
    (job.folder / "site").mkdir()
    (job.folder / "site" / "sitecustomize.py").write_text("import sys; sys.mine = __file__")
    script = "import sitecustomize, sys; print(sys.mine, sitecustomize.__file__)"
    plain, fit = (job(script, path=[job.folder / "site"], plainly=plainly) for plainly in (True, False))
    assert fit.stdout == plain.stdout and str(job.folder) in fit.stdout and fit.stderr == ""
    (job.folder / "site" / "sitecustomize.py").write_text("raise ValueError('mine')")
    plain, fit = (job("print('ran')", path=[job.folder / "site"], plainly=plainly) for plainly in (True, False))
    assert fit.stdout == plain.stdout == "ran\n"
    assert "ValueError: mine" in plain.stderr and fit.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]


def test_the_take_over_reaches_children_and_costs_no_framework(job):
    script = """\
import subprocess, sys
child = "import sys; print([f.__class__.__module__ for f in sys.meta_path][0], sorted({'keras', 'torch', 'numpy'} & set(sys.modules)))"
subprocess.run([sys.executable, "-c", child], check=True)
"""
    run = job(script)
    assert (run.stdout, run.stderr) == ("brimful.hooks []\n", "")


def test_exit_codes_are_the_job_s(job):
    assert job("raise SystemExit(7)").returncode == 7
    failed = job("1 / 0")
    assert failed.returncode == 1 and failed.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert job("import os, signal; os.kill(os.getpid(), signal.SIGTERM)").returncode == 128 + signal.SIGTERM
    killed = job("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert killed.returncode == 128 + signal.SIGKILL
    assert said(killed) == "brimful: the job was ended by signal 9, as the system does when memory runs out\n"


INTERRUPTED = """\
import signal, sys, time
count = 0
def interrupted(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, interrupted)
print("ready", flush=True)
deadline = time.monotonic() + 20
while not count and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.5)
print(f"interrupted {count}", flush=True)
sys.exit(3)
"""


def test_an_interrupt_at_the_terminal_reaches_the_job_once_and_is_waited_for(job):
    (job.folder / "train.py").write_text(INTERRUPTED)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(job.folder)
        os.execvpe(sys.executable, [*FIT, "--", sys.executable, "train.py"], environment())
    text = b""
    while b"ready" not in text:
        text += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while b"interrupted" not in text:
        text += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert b"interrupted 1" in text, text


def test_an_interrupt_of_the_command_alone_is_passed_on(job):
    (job.folder / "train.py").write_text(INTERRUPTED)
    running = subprocess.Popen([*FIT, "--", sys.executable, "train.py"], cwd=job.folder, env=environment(), stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"ready\n"
    # The job is up before the command listens; a moment is enough for that.
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    assert (running.communicate(timeout=60)[0], running.returncode) == (b"interrupted 1\n", 3)


def test_nothing_starts_without_brimful_in_that_python(job):
    # The same Python, without the folders where packages are.
    python = job.folder / "python3"
    python.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    python.chmod(0o755)
    run = job("open('started', 'w')", python=str(python))
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(
        f"error: {python} (of the command) has no brimful: install it with '{python} -m pip install .' in the folder"
    )
    assert not (job.folder / "started").exists()


def test_wrong_sizes_start_nothing(job):
    for size in ("lots", "3", "-1GiB", ""):
        run = job("open('started', 'w')", options=[f"--memory={size}"])
        assert run.returncode == 2 and len(run.stderr.splitlines()) == 1, run.stderr
    assert not (job.folder / "started").exists()


def test_a_take_over_that_fails_is_one_line_and_the_job_goes_on(job):
    script = "import subprocess, sys; print('ran', flush=True); subprocess.run([sys.executable, '-c', 'print(2)'])"
    bootstrap = Path(PACKAGE_FOLDER) / "brimful" / "_bootstrap"
    run = job(script, path=[bootstrap], plainly=True, BRIMFUL_FIT="{")
    assert (run.returncode, run.stdout) == (0, "ran\n2\n")
    assert run.stderr.startswith("brimful: nothing is taken over in ") and len(run.stderr.splitlines()) == 1


def test_a_torch_loop_is_named_with_the_two_lines(job):
    pytest.importorskip("torch")
    script = """\
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
if __name__ == "__main__":
    rows = torch.utils.data.TensorDataset(torch.ones(4, 2))
    for (x,) in torch.utils.data.DataLoader(rows, 2, num_workers=1, multiprocessing_context="spawn"):
        model(x).sum().backward()
        optimizer.step()
"""
    run = job(script)
    assert run.returncode == 0, run.stderr
    assert said(run) == TORCH_LINES.format(place="train.py:8")


def test_where_no_training_is_seen_the_job_s_own_process_says_so(job):
    pytest.importorskip("torch")
    script = "import subprocess, sys, torch\nif len(sys.argv) == 1: subprocess.run([sys.executable, __file__, 'child'], check=True)"
    assert said(job(script)) == "brimful: no training was seen\n"


#: Stands in for `brimful.keras.api`, by the user's own sitecustomize.
STAND_IN = """\
import sys, types
package, api = types.ModuleType("brimful.keras"), types.ModuleType("brimful.keras.api")
package.api, package.__path__, api.ORIGINAL = api, [], {}
def method(name):
    def run(model, *args, memory="auto", allow="exact", **kwargs):
        print(name, type(model).__name__, len(args), memory, allow, sorted(kwargs))
        return api.ORIGINAL[name](model, *args, **kwargs)
    return run
for name in ("fit", "evaluate", "predict"):
    setattr(api, name, method(name))
sys.modules.update({"brimful.keras": package, "brimful.keras.api": api})
"""


@pytest.fixture
def stand_in(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(STAND_IN)
    return [tmp_path / "site"]


def test_keras_methods_are_taken_over_and_calls_inside_them_are_not(job, stand_in):
    pytest.importorskip("tensorflow")
    script = """\
import inspect
import numpy, tensorflow as tf
keras = tf.keras
x, y = numpy.ones((4, 2), "float32"), numpy.ones((4, 1), "float32")

class Predicts(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.predict(x, verbose=0)

class Mine(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, inputs):
        return self.dense(inputs)
    def fit(self, *args, **kwargs):
        print("mine first")
        return super().fit(*args, **kwargs)

model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=2, validation_data=(x, y), callbacks=[Predicts()], verbose=0)
print(sorted(history.history), "batch_size" in inspect.signature(keras.Model.fit).parameters)
model.evaluate(x, y, verbose=0)
model.predict(x, verbose=0)
mine = Mine()
mine.compile("sgd", "mse")
mine.fit(x, y, verbose=0)
"""
    run = job(script, options=["--memory", "3GiB", "--allow", "numerics"], path=stand_in)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "fit Sequential 2 3221225472 numerics ['batch_size', 'callbacks', 'validation_data', 'verbose']",
        "['loss', 'val_loss'] True",
        "evaluate Sequential 2 3221225472 numerics ['verbose']",
        "predict Sequential 1 3221225472 numerics ['verbose']",
        "mine first",
        "fit Mine 2 3221225472 numerics ['verbose']",
    ]
    assert said(run) == ""


def test_keras_loops_are_named_with_the_two_lines(job):
    pytest.importorskip("tensorflow")
    script = """\
import sys
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(x))
        if loss > 1000.0:
            loss = loss * 0.5
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    return loss
for _ in range(3):
    train_step(tf.ones((4, 2)))
print(int(optimizer.iterations))
"""
    run = job(script)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "3\n"
    assert said(run).splitlines() == [
        "brimful: the training loop at train.py:15 ran as it is; these two lines would keep it inside the budget:",
        "brimful:     step = brimful.keras.Step(model, loss, optimizer)",
        "brimful:     loss = step(x, y)",
    ]


def test_optimizers_of_tensorflow_1_are_said_not_to_be_taken_over(job):
    pytest.importorskip("tensorflow")
    script = """\
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
weight = tf.Variable(1.0)
update = tf.train.GradientDescentOptimizer(0.1).minimize(weight * weight)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(update)
"""
    run = job(script)
    assert run.returncode == 0, run.stderr
    assert said(run).startswith("brimful: train.py:4 trains with an optimizer of TensorFlow 1, which is not taken over")
