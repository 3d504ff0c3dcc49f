"""Watches this process from a notebook or a script: what `brimful run` does for a whole command.

    with brimful.watch():
        model.fit(x, y)

In: where the recording goes, if anywhere of the user's choice. Out: a summary, printed at the end. A second process does the watching
(`brimful watch` of this same Python); here the agent is switched on, so that it hears of training steps. Nothing that goes wrong with
either reaches the user's code: it is one line on stderr.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO

from brimful import agent

__all__ = ["Watch", "watch"]

#: The watcher is up when its socket is there; a slow machine may take some seconds for that.
_UP_WITHIN_S = 15.0
#: It has a summary to make, and a recording to close.
_DOWN_WITHIN_S = 30.0


def watch(output: str | os.PathLike[str] | None = None) -> Watch:
    """Watches this process and those it starts, until `stop()` or the end of the `with` block. The recording goes to `output`."""
    return Watch(output)


class Watch:
    """A watcher of this process, which begins to watch when it is made."""

    def __init__(self, output: str | os.PathLike[str] | None = None) -> None:
        #: What was printed at the end.
        self.summary = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None
        self._streams: list[IO[bytes]] = []
        self._pid = os.getpid()
        try:
            self._start(output)
        except Exception as error:
            self._say(f"nothing is watched: {_words(error)}")
            self._forget()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the watching and prints the summary. A second call does nothing, nor does one in a forked process."""
        if self._process is None or os.getpid() != self._pid:
            return
        process, self._process = self._process, None
        atexit.unregister(self.stop)
        try:
            self._detach()
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            self._await(process)
            summary, problem = (self._text(stream) for stream in self._streams)
            if summary:
                self.summary = summary
                print(summary, end="", flush=True)
            elif problem or process.returncode:
                self._say(f"there is no summary: {_problem(problem) or f'the watcher ended with {process.returncode}'}")
        except Exception as error:
            self._say(f"there is no summary: {_words(error)}")
        finally:
            self._forget()

    @property
    def _socket(self) -> str:
        return os.path.join(self._folder or "", "agent")

    def _start(self, output: str | os.PathLike[str] | None) -> None:
        # A socket's path has a hundred bytes, which temporary folders of some systems nearly fill.
        base = tempfile.gettempdir()
        self._folder = tempfile.mkdtemp(prefix="brimful-", dir=base if len(base) < 60 else "/tmp")
        self._streams = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
        command = [sys.executable, "-m", "brimful", "watch", str(os.getpid()), "--socket", self._socket, "--quiet"]
        if output is not None:
            command += ["-o", os.fspath(output)]
        # In a session of its own Ctrl-C, which is for the user's code, does not end it.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._streams[0],
            stderr=self._streams[1],
            env=_environment(),
            start_new_session=True,
        )
        atexit.register(self.stop)
        self._await_socket(self._process)
        agent.attach(self._socket)

    def _await_socket(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _UP_WITHIN_S
        while not os.path.exists(self._socket):
            if process.poll() is not None:
                raise RuntimeError(_problem(self._text(self._streams[1])) or f"the watcher ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise TimeoutError("the watcher does not answer")
            time.sleep(0.005)

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(_DOWN_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _detach(self) -> None:
        agent.detach(self._socket)

    def _forget(self) -> None:
        process, self._process = self._process, None
        try:
            self._detach()
            if process is not None:
                atexit.unregister(self.stop)
                process.kill()
                process.wait()
            for stream in self._streams:
                stream.close()
        except Exception as error:
            self._say(_words(error))
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _text(self, stream: IO[bytes]) -> str:
        stream.seek(0)
        return stream.read().decode(errors="replace")

    def _say(self, text: str) -> None:
        print(f"brimful: {' '.join(text.split())}", file=sys.stderr, flush=True)


def _environment() -> dict[str, str]:
    """The watcher's: it is no part of a job that is itself watched, and finds this same package."""
    environment = {name: value for name, value in os.environ.items() if name not in ("BRIMFUL_RUN", "BRIMFUL_FIT")}
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
    return environment


def _problem(text: str) -> str:
    """What a command said, as part of another sentence."""
    return text.removeprefix("brimful: ").removeprefix("error: ")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
