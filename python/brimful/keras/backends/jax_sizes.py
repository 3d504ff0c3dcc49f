"""How many samples at a time fit on JAX: asked of the compiler, without running anything.

In: a backend, a batch and the room. Out: a size. XLA says for each program what it needs beside its arguments; between two sizes that
grows evenly. The program of the size that is chosen is compiled for good: running it compiles nothing again.
"""

from __future__ import annotations

import math
from typing import Any

from brimful.fitting import failure, sizing

from .. import batches

#: Steps from one copy of the state to the next: what a copy costs is then a small part of a step, and a failure costs as many again. A choice.
LAP_STEPS = 32
#: Where no batch is held for them, a lap goes on until it took so long, or had so many steps: on an H200 a copy took more than a millisecond, a good
#: part of 32 steps of one. A choice, too: what a failure costs is then a blink.
LAP_SECONDS = 0.25
LAP_MOST_STEPS = 256
#: The batches of those steps may take this share of the room, a choice: what short steps need is small.
LAP_SHARE = 1 / 16
#: So many are begun on a GPU before the first of them is done: it has work while the host is woken up. With eight, short steps on an H200 were slower.
GPU_AHEAD_STEPS = 4

#: Where the plan says that a batch needs so many parts, it is not compiled as a whole, a choice: no plan was off by so much, compiling takes as long
#: as for any size, and on a GPU XLA's search for the fastest kernels asks for the whole operands and says for each that there is no memory for them.
FAR_TOO_LARGE = 8

#: Programs that are compiled at most to find the size; each takes as long as the first step.
TRIES = 4


def whole_bytes(backend: Any, data: tuple) -> float:
    """What the batch as it stands needs beside the state and itself."""
    return _bytes(lambda: backend.whole_program(data)) + backend.copied_bytes()


def laps(whole_bytes: float, batch_bytes: int, room_bytes: int, promises: bool) -> tuple[int, int]:
    """How many steps of a whole batch may go by until the state is copied again, and how many are begun before the first of them is done.

    All batches since then are still there. On a CPU two are enough: what is begun beside the one that runs waits for its cores.
    """
    steps = max(1, min(LAP_STEPS, int(room_bytes * LAP_SHARE / max(1, batch_bytes))))
    # Room for a second program is room for the second copy, too, which the next lap begins with.
    if 2 * whole_bytes > room_bytes:
        return steps, 0
    return steps, GPU_AHEAD_STEPS if promises else 2


def largest(backend: Any, data: tuple, rule: Any, collect: bool, start: int, room_bytes: int) -> int:
    """The largest part of a batch that the compiler says fits.

    room_bytes: what is free beside the state and the batch.
    """
    rows = batches.rows(data[0])
    known: dict[int, float] = {}
    size = max(1, min(start, rows))
    for _ in range(TRIES):
        known[_taken(rows, size)] = _need(backend, data, rule, collect, _taken(rows, size))
        proposed = _proposed(known, rows, room_bytes)
        if _taken(rows, proposed) in known:
            break
        size = proposed
    if known.get(_taken(rows, proposed), math.inf) <= room_bytes:
        return proposed
    return max((size for size, need in known.items() if need <= room_bytes), default=1)


def _taken(rows: int, size: int) -> int:
    """How many samples the largest part has when parts have so many at most: they are equal. Only such programs will run."""
    return max(end - begin for begin, end in sizing.parts(rows, size))


def _need(backend: Any, data: tuple, rule: Any, collect: bool, size: int) -> float:
    part = batches.part(data, 0, size)
    before = sum(value.nbytes for value in backend.values["trainable"])
    share = size / batches.rows(data[0])
    return _bytes(lambda: backend.gradients_program(part, rule, share, collect)) + batches.bytes_of(part) + before


def _bytes(program: Any) -> float:
    """What a program needs beside its arguments. The compiler tries kernels out, and may run out of memory itself: too much, then."""
    try:
        needs = program().memory_analysis()
    except Exception as error:
        if not failure.is_out_of_memory(error):
            raise
        failure.forget(error)
        return math.inf
    return needs.temp_size_in_bytes + needs.output_size_in_bytes - needs.alias_size_in_bytes


def _proposed(known: dict[int, float], rows: int, room_bytes: int) -> int:
    """Where the line through the two nearest sizes meets the room; a half or twice as many where there is but one."""
    if len(known) == 1:
        ((size, need),) = known.items()
        return max(1, min(rows, size // 2 if need > room_bytes else 2 * size))
    if math.inf in known.values():
        finite = [size for size, need in known.items() if need < math.inf]
        return max(1, (max(finite) + min(set(known) - {*finite})) // 2 if finite else min(known) // 2)
    near = sorted(known, key=lambda size: abs(known[size] - room_bytes))[:2]
    small, large = sorted(near)
    per_sample = (known[large] - known[small]) / (large - small)
    if per_sample <= 0:
        return max(1, small // 2)
    size = int(small + (room_bytes - known[small]) / per_sample)
    return max(1, min(rows, size))
