"""Takes memory away from a framework for real, and gives it back: the second allocation under the same limit.

On TensorFlow with its BFC allocator the memory is taken as tensors of its own pool; elsewhere it is taken from the address space that the
process may have (`ulimit -v`), and from what the framework keeps for later. What is left is a number of bytes, chosen by the caller.
"""

import mmap
import os
import re
import resource
import time

BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
BFC = os.environ.get("TF_CPU_ALLOCATOR_USE_BFC") == "true"
#: Small enough to fill the holes of the pool, large enough to be few.
PIECE_BYTES = 256 << 10
LARGE_PIECE_BYTES = 1 << 20

_held = []


def limit_address_space(more_bytes):
    """From now on the process may have so much more than it has."""
    most = _address_space_bytes() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _address_space_bytes():
    with open("/proc/self/status") as file:
        return int(re.search(r"^VmSize:\s+(\d+) kB", file.read(), re.MULTILINE)[1]) << 10


def used_bytes():
    """What the pool holds now; nothing is known about other allocators."""
    if not BFC:
        return None
    return _tensorflow().config.experimental.get_memory_info("CPU:0")["current"]


def free_bytes():
    if BFC:
        return (int(os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"]) << 20) - used_bytes()
    return resource.getrlimit(resource.RLIMIT_AS)[0] - _address_space_bytes()


def one_region():
    """Makes the pool one piece: it grows in regions, and a tensor lies in one of them."""
    _tensorflow().zeros([(free_bytes() - (16 << 20)) // 4])


def settle():
    """Waits until JAX has freed what its last program used, which it does in threads of its own: what comes back after the memory was
    taken would be room for the next program, and the shortage would not be felt."""
    if BACKEND != "jax":
        return
    same, before_bytes = 0, _address_space_bytes()
    while same < 4:
        time.sleep(0.05)
        now_bytes = _address_space_bytes()
        same, before_bytes = (same + 1 if now_bytes == before_bytes else 0), now_bytes


def take(rest_bytes):
    """Leaves so much."""
    if BFC:
        with _tensorflow().device("CPU:0"):
            while free_bytes() > rest_bytes + PIECE_BYTES:
                _held.append(_piece(PIECE_BYTES))
        return
    _held.append(_mapped(free_bytes() - rest_bytes))
    # What was freed is kept for later by the framework, or by the C library below it: that is taken, too, until the framework says
    # itself that there is no more.
    reserve = _mapped(free_bytes() - (256 << 10))
    # The last crumbs only where little is to be left: others of the process's threads end it when they get none.
    for size_bytes in (LARGE_PIECE_BYTES, PIECE_BYTES) if rest_bytes < LARGE_PIECE_BYTES else (LARGE_PIECE_BYTES,):
        out_of_memory = False
        while not out_of_memory:
            try:
                _held.append(_piece(size_bytes))
            except Exception as error:
                # The last is C++'s own word for it, where the framework has none left to say it with.
                assert any(word in str(error) for word in ("memory", "OOM", "bad_alloc")), error
                out_of_memory = True
    reserve.close()


def _mapped(size_bytes):
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _tensorflow():
    import tensorflow as tf

    return tf


def _piece(size_bytes):
    if BACKEND == "tensorflow":
        return _tensorflow().zeros([size_bytes // 4])
    if BACKEND == "torch":
        import torch

        return torch.empty(size_bytes // 4)
    import jax

    return jax.block_until_ready(jax.numpy.zeros([size_bytes // 4]))


def give_back():
    """All that was taken. Whether there was any."""
    had = bool(_held)
    while _held:
        piece = _held.pop()
        if isinstance(piece, mmap.mmap):
            piece.close()
    return had
