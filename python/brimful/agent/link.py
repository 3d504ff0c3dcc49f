"""What is sent, and to whom.

In: kinds and fields of messages. Out: one datagram each, JSON of 4 KiB at most, to every socket that is attached. Nothing here waits: what
cannot be sent at once is dropped, or kept for the next time where it must not be lost. A socket that nobody listens at any more is
left alone from then on, without a word.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from _socket import AF_UNIX, MSG_DONTWAIT, SOCK_DGRAM, socket
from time import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The protocol's version.
VERSION = 1
VARIABLE = "BRIMFUL_RUN"
_MOST_BYTES = 4096
#: As many are kept that could not be sent.
_MOST_KEPT = 32
#: What says that there is no room now, rather than that nobody listens.
_NO_ROOM = {errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EINTR}

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Link:
    """The sockets that this process sends to."""

    def __init__(self) -> None:
        self.paths = _from_environment()
        #: Names and versions of what this process has imported.
        self.frameworks: dict[str, str] = {}
        self._to_announce: list[str] = []
        self._kept: list[tuple[str, bytes]] = []

    def attach(self, path: str) -> None:
        if path not in self.paths:
            self.paths.append(path)
            for name in self.frameworks:
                self._send_to(path, _encoded("framework", {"name": name, "version": self.frameworks[name]}), keep=True)

    def detach(self, path: str) -> None:
        if path in self.paths:
            self.paths.remove(path)

    def framework(self, name: str, version: str) -> None:
        """A framework has been imported."""
        self.frameworks[name] = version[:64]
        self._to_announce.append(name)
        self._announce()

    def begin_in_child(self) -> None:
        """A forked process has said nothing yet; if it never has anything to say, it stays silent."""
        self._to_announce = list(self.frameworks)
        self._kept = []

    def send(self, kind: str, fields: dict[str, Any], ns: int | None = None, keep: bool = False) -> bool:
        """Sends one message; false says that there was no room. With `keep` it then goes out before the next one."""
        if not self.paths:
            return True
        self._announce()
        return self._send_all(_encoded(kind, fields, ns), keep)

    def give_up(self, error: Exception) -> None:
        """Something here is wrong: the job goes on as if nobody followed it."""
        if self.paths:
            self.paths.clear()
            say(f"training is not followed any more: {type(error).__name__}: {' '.join(str(error).split())[:200]}")

    def _announce(self) -> None:
        names, self._to_announce = self._to_announce, []
        for name in names:
            self._send_all(_encoded("framework", {"name": name, "version": self.frameworks[name]}), keep=True)

    def _send_all(self, message: bytes, keep: bool) -> bool:
        if self._kept:
            kept, self._kept = self._kept, []
            for path, earlier in kept:
                self._send_to(path, earlier, keep=True)
        return all([self._send_to(path, message, keep) for path in list(self.paths)])

    def _send_to(self, path: str, message: bytes, keep: bool) -> bool:
        if path not in self.paths or len(message) > _MOST_BYTES:
            return True
        try:
            # A new one each time: a file number that is kept may be closed by the job, given to a file of its own, and written to.
            sender = socket(AF_UNIX, SOCK_DGRAM)
            try:
                sender.sendto(message, MSG_DONTWAIT, path)
            finally:
                sender.close()
        except OSError as error:
            if error.errno in _NO_ROOM:
                if keep and len(self._kept) < _MOST_KEPT:
                    self._kept.append((path, message))
                return False
            self.detach(path)
        return True


def say(text: str) -> None:
    """One line on stderr, if the job has one."""
    try:
        print(f"brimful: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        pass


def _encoded(kind: str, fields: dict[str, Any], ns: int | None = None) -> bytes:
    message = {"v": VERSION, "kind": kind, "pid": os.getpid(), "ns": monotonic_ns() if ns is None else ns, **fields}
    return _encode(message).encode()


def _from_environment() -> list[str]:
    text = os.environ.get(VARIABLE)
    if not text:
        return []
    try:
        run = json.loads(text)
        if run["v"] == VERSION and isinstance(run["socket"], str):
            return [run["socket"]]
        problem = f"version {run['v']} of the agent's protocol is not known"
    except (ValueError, TypeError, KeyError, RecursionError):
        problem = f"{VARIABLE} in the environment cannot be read"
    # The processes that this one starts would say the same.
    os.environ.pop(VARIABLE, None)
    say(f"training is not followed: {problem}")
    return []


link = Link()
