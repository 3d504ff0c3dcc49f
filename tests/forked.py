"""Runs a script in a process of its own that has its framework already: a copy of one that has imported it.

Importing TensorFlow or PyTorch takes four seconds of CPU time, and the tests start a hundred such jobs. In: a script, its arguments, its
environment. Out: what `subprocess.run` gives. For each environment that a framework or the C library reads when it is loaded there is one
process that imports and waits; nothing is computed in it, so that no thread of a framework runs when it is copied.

`Interpreter` is the same for a program that starts Python itself: a command to start in its place.

Not for tests of what happens at import, of the command that starts a user's script, or of threads that a library starts when it is loaded.
"""

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

#: What is read when a library is loaded, and not when it is used.
READ_AT_LOAD = ("KERAS_", "TF_ENABLE_", "TF_CPP_", "JAX_", "XLA_", "OMP_", "MALLOC_", "PYTHON", "OPENBLAS_", "CUDA_", "LD_")
#: What takes most of the time of a small plan of a PyTorch model.
PLANNING_TORCH = ("torch", "torch.fx.experimental.symbolic_shapes", "torch._dynamo", "transformers.models.auto.auto_factory")
#: No environment is that large.
REQUEST_BYTES = 1 << 20
#: Runs this file under no file's name: who looks for a line of the user's among the callers does not find one here.
NAMELESS = "import sys; del sys.argv[0]; exec(compile(open(sys.argv[0]).read(), '<forked>', 'exec'))"
_LOCK = threading.Lock()
_PARENTS = {}


def run(script, *args, env, timeout, modules=("keras",)):
    """Runs `script` with these arguments in a copy of a process that has imported `modules`."""
    command = [str(script), *map(str, args)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        ours, theirs = socket.socketpair()
        request = json.dumps({"argv": command, "env": dict(env), "cwd": os.getcwd()}).encode()
        with _LOCK:
            parent = _parent(modules, env)
        socket.send_fds(parent, [request], [out.fileno(), err.fileno(), theirs.fileno()])
        theirs.close()
        with ours:
            code = _wait(ours, command, timeout)
        out.seek(0), err.seek(0)
        return subprocess.CompletedProcess(command, code, out.read().decode(errors="replace"), err.read().decode(errors="replace"))


class Interpreter:
    """What is started as Python by a program that is given `path` for it, and `descriptor` (by `pass_fds`): modules are run in a copy of a
    process that has imported `modules`, everything else by Python itself."""

    def __init__(self, folder, *modules):
        with _LOCK:
            self.descriptor = _parent(modules, os.environ).fileno()
        self.path = Path(folder) / "python"
        # What hands over needs no packages, and starts sooner without them.
        self.path.write_text(
            f'#!/bin/sh\n[ "$1" = -m ] && exec {sys.executable} -I -S {__file__} {self.descriptor} "$@"\nexec {sys.executable} "$@"\n'
        )
        self.path.chmod(0o755)

    def run(self, *command, cwd, **variables):
        """Runs a program that takes this one for Python, unless the variables name another."""
        environment = {**os.environ, "BRIMFUL_PYTHON": self.path, **variables}
        options = {"env": environment, "pass_fds": [self.descriptor], "capture_output": True, "text": True, "timeout": 300}
        return subprocess.run(list(map(str, command)), cwd=cwd, check=False, **options)


def _instead(parent, command):
    """What such a copy ends with, whose streams are those of this process."""
    ours, theirs = socket.socketpair()
    request = json.dumps({"argv": command, "env": dict(os.environ), "cwd": os.getcwd()}).encode()
    socket.send_fds(parent, [request], [1, 2, theirs.fileno()])
    theirs.close()
    code = _wait(ours, command, None)
    return code if code >= 0 else 128 - code


def _wait(answers, command, timeout):
    """The exit code of the job, as `subprocess` has it; it is killed when its time is over."""
    process = int.from_bytes(answers.recv(4, socket.MSG_WAITALL), "little")
    assert process, f"{command[0]} was not started: the process that imports for it has died"
    answers.settimeout(timeout)
    try:
        status = answers.recv(4, socket.MSG_WAITALL)
    except TimeoutError:
        os.kill(process, signal.SIGKILL)
        raise subprocess.TimeoutExpired(command, timeout) from None
    return os.waitstatus_to_exitcode(int.from_bytes(status, "little"))


def _parent(modules, env):
    """The socket of the process that has imported `modules` in an environment like this one."""
    settings = {name: value for name, value in env.items() if name.startswith(READ_AT_LOAD)}
    key = (*modules, *sorted(settings.items()))
    if key not in _PARENTS:
        # Each request is one packet.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-c", NAMELESS, __file__, str(theirs.fileno()), *modules]
        process = subprocess.Popen(command, env=dict(env), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        _PARENTS[key] = ours
        atexit.register(lambda: (ours.close(), process.wait()))
    return _PARENTS[key]


def _serve(requests, modules):
    """Imports, and gives the request of a copy that is to run it. The process itself never comes back from here."""
    for module in modules:
        __import__(module)
    # Nobody waits for those in between.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors, *_ = socket.recv_fds(requests, REQUEST_BYTES, 3)
        if not request:
            os._exit(0)
        # One between that waits: this one has others to serve.
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            answers = socket.socket(fileno=descriptors[2])
            process = os.fork()
            if not process:
                answers.close()
                return json.loads(request), descriptors[:2]
            answers.sendall(process.to_bytes(4, "little"))
            answers.sendall((os.waitpid(process, 0)[1]).to_bytes(4, "little"))
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(request, outputs):
    """Makes this process what it would be, had it been started for the request."""
    for target, source in enumerate(outputs, 1):
        os.dup2(source, target)
        os.close(source)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = request["argv"]
    sys.path[0] = request["cwd"] if sys.argv[0] == "-m" else str(Path(sys.argv[0]).parent)


if __name__ == "__main__":
    parent = socket.socket(fileno=int(sys.argv[1]))
    if sys.argv[2:3] == ["-m"]:
        sys.exit(_instead(parent, sys.argv[2:]))
    _become(*_serve(parent, sys.argv[2:]))
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
