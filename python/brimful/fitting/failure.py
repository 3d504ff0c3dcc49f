"""Which errors say that memory ran out, and how to let go of what they hold.

In: an exception of any framework. Out: whether memory ran out, and its words in one line. Types are compared by name: nothing here
imports a framework.
"""

from __future__ import annotations

import sys
import traceback

#: Types that say nothing else.
TYPES = {"OutOfMemoryError", "ResourceExhaustedError", "MemoryError"}
#: What other types say when memory ran out. From the frameworks' sources and from users' reports:
#: PyTorch's CPU allocator, CUDA, cuBLAS, cuDNN (its kernels are loaded when they are first used), XLA (and YNNPACK on its
#: CPUs, which says nothing else), TensorFlow's RNN kernels.
TEXTS = (
    "out of memory",
    "can't allocate memory",
    "resource_exhausted",
    "failed to allocate",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "cudnn_status_internal_error",
    "cudnn_status_not_supported",
    "unable to find an engine to execute",
    "failed to call thenrnnforward",
    "ynnpack operation failed",
    # TensorFlow, while it traces: the constants of a graph are evaluated in the same memory.
    "unable to evaluate a constant node",
    # Protobuf, which TensorFlow writes its graphs with.
    "failed to serialize proto",
    "bad_alloc",
    "bad allocation",
    "cannot allocate memory",
)
#: Errors of other kinds may quote a text above: only these types are searched for one.
SPEAKERS = {
    "RuntimeError",
    "XlaRuntimeError",
    "JaxRuntimeError",
    "InternalError",
    "UnknownError",
    "AcceleratorError",
    "OSError",
    "ValueError",
    "DynamoError",
    "BackendCompilerFailed",
    "EncodeError",
}


class DoesNotFit(RuntimeError):
    """Not even one sample at a time fits into the budget."""


class CannotSplit(RuntimeError):
    """The batch does not fit, and taking it in parts would train another model."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether this error, or one that caused it, says that memory ran out."""
    return any(_says_so(one) for one in _chain(error))


def _says_so(error: BaseException) -> bool:
    if isinstance(error, (DoesNotFit, CannotSplit)):
        return False
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & TYPES:
        return True
    if not names & SPEAKERS:
        return False
    text = str(error).lower()
    return any(words in text for words in TEXTS)


def forget(error: BaseException) -> str:
    """Lets go of the tensors that the frames of a failed attempt hold, and gives the error's words in one line.

    Called inside `except`; the memory is free when that block has been left.
    """
    text = first_line(error)
    for one in _chain(error):
        if one.__traceback__ is not None:
            # Frames that still run cannot be cleared, and are the caller's own.
            traceback.clear_frames(one.__traceback__)
        one.__traceback__ = None
    error.__cause__ = error.__context__ = None
    # A shell for notebooks keeps the last error for its debugger, and with it every tensor.
    for name in ("last_value", "last_traceback", "last_type", "last_exc"):
        if getattr(sys, name, None) is not None:
            setattr(sys, name, None)
    return text


def first_line(error: BaseException) -> str:
    """What an error says, in one line that a person can read."""
    said = str(getattr(error, "message", None) or error).strip().splitlines() or [""]
    readable = [part.strip() for part in said if part.strip() and "traceback" not in part.lower()]
    # TensorFlow and Keras first say where it happened.
    line = next((part for part in readable if any(words in part.lower() for words in (*TEXTS, "oom when"))), "")
    line = line or (readable[0] if readable else "")
    return f"{type(error).__name__}: {line[:200]}".rstrip(": ")


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error, its causes and what was being handled when it was raised."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or any(one is other for other in seen):
            continue
        seen.append(one)
        waiting += [one.__cause__, one.__context__]
    return seen
