"""What training inside a budget decides without a framework: sizes, what was learnt, memory in words, which errors say it ran out."""

import gc
import json
import mmap
import random
import resource
import subprocess
import sys
import tempfile
import weakref

import pytest
from brimful.fitting import CannotSplit, DoesNotFit, failure, host, lines, memory, sizing
from brimful.fitting.learnt import KEPT, Learnt, folder

CASES = range(300)


@pytest.mark.parametrize("seed", range(4))
def test_parts_cover_each_row_once(seed):
    """In order, none larger than the size, as few as possible and as equal as possible, the larger ones first."""
    chosen = random.Random(seed)
    for _ in CASES:
        rows, size = chosen.randint(1, 500), chosen.randint(1, 520)
        found = sizing.parts(rows, size)
        lengths = [end - begin for begin, end in found]
        assert [row for begin, end in found for row in range(begin, end)] == list(range(rows))
        assert len(found) == -(-rows // size) and max(lengths) <= size
        assert min(lengths) >= 1 and max(lengths) - min(lengths) <= 1
        assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("seed", range(4))
def test_a_size_is_found_whatever_fits(seed):
    """Failures halve, success keeps: a size that fits is reached in few failures, and never one above the batch."""
    chosen = random.Random(seed)
    for _ in CASES:
        asked, fits = chosen.randint(1, 1000), chosen.randint(1, 1000)
        size = sizing.MicroBatch(asked, chosen.choice([None, chosen.randint(1, 2000)]))
        failures = 0
        for _ in range(50):
            assert 1 <= size.size <= asked
            tried = max(end - begin for begin, end in sizing.parts(asked, size.size))
            if tried > fits:
                failures += 1
                assert size.failed(tried) < tried
            else:
                size.succeeded(tried)
        assert size.size == asked or max(end - begin for begin, end in sizing.parts(asked, size.size)) <= fits
        assert failures <= asked.bit_length() + 1


def test_one_sample_cannot_be_halved():
    with pytest.raises(DoesNotFit, match="not even one sample"):
        sizing.MicroBatch(8, 1).failed(1)


def steps_until(size, done, fits, most=5000):
    """Steps, and failures, until the size is as wanted."""
    failures = 0
    for step in range(most):
        if done(size.size):
            return step, failures
        tried = max(end - begin for begin, end in sizing.parts(size.asked, size.size))
        if tried > fits:
            failures += 1
            size.failed(tried)
        else:
            size.succeeded(tried)
    raise AssertionError(f"still {size.size} after {most} steps")


@pytest.mark.parametrize("asked", [8, 96, 768, 1000, 7])
def test_a_size_grows_again_when_the_memory_is_back(asked):
    """Also where every size between brings the same number of parts: what failed is tried again."""
    size = sizing.MicroBatch(asked)
    size.succeeded(asked)
    size.failed(asked)
    assert size.size == (asked + 1) // 2
    steps, failures = steps_until(size, lambda now: now == asked, fits=asked)
    assert failures == 0 and steps >= sizing.PATIENCE_STEPS * sizing.PATIENCE_FACTOR


def test_what_never_fits_is_tried_less_and_less():
    """Each failure makes the next try wait longer: over many steps there are few."""
    size, failures, steps = sizing.MicroBatch(100), 0, 20_000
    for _ in range(steps):
        tried = max(end - begin for begin, end in sizing.parts(100, size.size))
        if tried > 60:
            failures += 1
            size.failed(tried)
        else:
            size.succeeded(tried)
    assert 1 <= failures <= 8


def test_measured_peaks_say_what_fits():
    """With two peaks and the room there is nothing to wait for: ten bytes a sample, a thousand bytes in all."""
    size = sizing.MicroBatch(400, 10)
    size.succeeded(8, 80, lambda: 1000)
    assert not size.succeeded(10, 100, lambda: 1000) or size.size == 20
    grown = [size.size]
    for _ in range(20):
        size.succeeded(size.size, 10 * size.size, lambda: 1000)
        grown.append(size.size)
    assert max(grown) <= 1000 * (1 - sizing.MARGIN) / 10
    assert grown[-1] == 80, "doubled while it fits"


def test_nothing_is_tried_that_no_peak_speaks_for_where_it_would_be_the_end():
    """However long it goes well; and peaks that are off by some bytes do not carry it far."""
    size = sizing.MicroBatch(1000, 10, careful=True)
    for _ in range(5000):
        assert not size.succeeded(10)
    size.peaks.update({0: 100, 9: 189, 10: 190})  # ten a sample, but one between nine and ten
    assert size.succeeded(10, 190, lambda: 1000) is False and size.size == 10, "looked at now and then"
    while size.is_new or size.size == 10:
        size.succeeded(10, 190, lambda: 1000)
    assert size.size == 20
    for _ in range(100):
        size.succeeded(size.size, 100 + 10 * size.size, lambda: 1000)
    assert 60 <= size.size and 100 + 10 * size.size <= 1000 * (1 - sizing.HEAP_MARGIN)


def test_what_took_more_than_it_may_is_taken_smaller():
    size = sizing.MicroBatch(1000, 100, careful=True)
    size.peaks[0] = 100
    assert size.exceeded(100, 1100, 900) == size.size
    assert 100 + 10 * size.size <= 900 and size.size >= 60
    assert sizing.MicroBatch(10, 2).exceeded(2, 1000, 10) == 1


def test_a_plan_that_knows_bounds_the_growth():
    """Peaks say 43, the plan, which knows where tensors are put, 40: seven parts stay seven."""
    size = sizing.MicroBatch(256, 40)
    size.peaks[18] = 18 * 180
    for _ in range(2000):
        assert not size.succeeded(37, 37 * 180, lambda: 8192, lambda: 40)
    assert size.size == 40
    while not size.succeeded(37, 37 * 180, lambda: 16384, lambda: 80):
        pass
    assert size.size == 80, "there is twice as much"


def test_a_size_that_fails_again_and_again_is_not_repeated_for_ever():
    """Each part of each step fails once and goes well the second time: after a few of them there is one part more, not half the size."""
    size = sizing.MicroBatch(4096, 281)
    size.succeeded(274)
    repeats = 0
    while size.repeats(274):
        repeats += 1
        size.succeeded(274, failures=1)
    assert repeats == sizing.REPEATS
    assert size.failed(274) == 256, "sixteen parts in place of fifteen"
    # One failure now and then is another matter.
    size.succeeded(256)
    for _ in range(20):
        assert size.repeats(256)
        size.succeeded(256, failures=1)
        size.succeeded(256)


def test_a_larger_batch_is_asked_whole():
    size = sizing.MicroBatch(10)
    size.ask(20)
    assert size.size == 20
    size.failed(20)
    size.ask(40)
    assert size.size == 10 and size.asked == 40


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BRIMFUL_CACHE", str(tmp_path))
    return tmp_path


def test_the_folder_is_the_users_choice(monkeypatch, tmp_path):
    monkeypatch.delenv("BRIMFUL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder() == tmp_path / "brimful"
    monkeypatch.setenv("BRIMFUL_CACHE", str(tmp_path / "own"))
    assert folder() == tmp_path / "own"


def test_the_next_run_starts_where_this_one_ended(cache):
    first = Learnt({"model": "a"})
    assert first.start(1000) is None
    first.bad(1000, 64)
    first.good(1000, 32)
    first.save()
    again = Learnt({"model": "a"})
    assert again.start(1000) == 32 and again.start(5000) == 32
    assert again.start(10) == 32, "it failed at 64 in more room than this; half of it is where to begin"
    assert Learnt({"model": "b"}).start(1000) is None


def test_what_failed_is_not_taken_again(cache):
    learnt = Learnt({})
    learnt.good(1000, 32)
    learnt.bad(900, 32)
    assert learnt.start(900) == 16
    assert learnt.start(1000) == 32
    learnt.bad(1000, 32)
    assert learnt.start(1000) == 16, "what went well before failed since, in the same room"


@pytest.mark.parametrize("seed", range(4))
def test_what_is_learnt_never_contradicts_itself(seed, cache):
    """Whatever came in: a start is below each size that last failed in as much room or more, and the file can be read back."""
    chosen = random.Random(seed)
    for case in range(40):
        learnt = Learnt({"case": case, "seed": seed})
        for _ in range(chosen.randint(1, 40)):
            getattr(learnt, chosen.choice(["good", "bad"]))(chosen.randint(0, 20), chosen.randint(1, 64))
        learnt.save()
        again = Learnt({"case": case, "seed": seed})
        for room in range(21):
            start = learnt.start(room)
            assert again.start(room) == start
            if start is not None:
                failed = [size for at, size in learnt._bad if at >= room and size > 1]
                assert 1 <= start and all(start < size for size in failed)
        assert len(learnt._good) <= KEPT and len(learnt._bad) <= KEPT


@pytest.mark.parametrize("text", ["", "{", "[]", '{"good": 3, "bad": []}', '{"good": [["x", 1]], "bad": []}', "null", '{"good": [[1]]}'])
def test_a_broken_file_is_as_good_as_none(text, cache):
    learnt = Learnt({})
    learnt.path.parent.mkdir(parents=True)
    learnt.path.write_text(text)
    again = Learnt({})
    assert again.start(10) is None
    again.good(10, 4)
    again.save()
    assert json.loads(again.path.read_text()) == {"good": [[10, 4]], "bad": []}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BRIMFUL_CACHE", str(tmp_path / "file"))
    learnt = Learnt({})
    learnt.good(1, 1)
    learnt.save()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("3GiB", 3 << 30),
        ("500MB", 500_000_000),
        ("1.5g", 3 << 29),
        (" 2 KiB ", 2048),
        ("7", 7),
        (4096, 4096),
        (2.5e3, 2500),
        ("1t", 1 << 40),
    ],
)
def test_sizes_are_read(text, size):
    assert memory.parse(text) == size


@pytest.mark.parametrize("text", ["", "much", "3 parsecs", "-1", "0", 0, -5, "1..2GB", "0.1", True, None])
def test_what_is_no_size_is_said(text):
    with pytest.raises(ValueError, match="memory is"):
        memory.parse(text)


@pytest.mark.parametrize("seed", range(2))
def test_a_size_in_words_is_the_size(seed):
    chosen = random.Random(seed)
    for _ in CASES:
        size = int(2 ** chosen.uniform(0, 45))
        number, unit = memory.human(size).split()
        assert memory.parse(f"{number}{unit}") == pytest.approx(size, rel=0.06)


def fake_system(root, available_kib=8192, **files):
    """A system's files under a folder."""
    for name, text in {"proc/meminfo": f"MemTotal: 99999 kB\nMemAvailable: {available_kib} kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_least_room_counts(tmp_path):
    """A container's limit, with the page cache as free, is below what the machine has."""
    assert memory.host_room_bytes(fake_system(tmp_path / "plain")) == 8192 << 10
    grouped = {
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/memory.max": "5000000\n",
        "sys/fs/cgroup/job/memory.current": "3000000\n",
        "sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 500000\n",
    }
    assert memory.host_room_bytes(fake_system(tmp_path / "group", **grouped)) == 2_500_000
    unlimited = {**grouped, "sys/fs/cgroup/job/memory.max": "max\n"}
    assert memory.host_room_bytes(fake_system(tmp_path / "unlimited", **unlimited)) == 8192 << 10
    above = {**unlimited, "sys/fs/cgroup/memory.max": "4000000\n", "sys/fs/cgroup/memory.current": "3900000\n"}
    assert memory.host_room_bytes(fake_system(tmp_path / "above", **above)) == 100_000
    old = {
        "proc/self/cgroup": "5:cpu:/x\n4:memory:/job\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1000000\n",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "2000000\n",
    }
    assert memory.host_room_bytes(fake_system(tmp_path / "old", **old)) == 0
    assert memory.host_room_bytes(tmp_path / "nothing") == 0


def test_the_peak_of_a_footprint_is_what_was_held():
    """Also when it is gone again; from a reset on, what comes; pages of files are none of it."""
    footprint = host.Footprint()
    footprint.reset_peak()
    # The kernel counts pages in batches, so that a few are always on their way.
    size, exact = 64 << 20, 1 << 20
    held = bytearray(b"x") * size
    during = footprint.used_bytes()
    del held
    assert size - exact <= during < size + (16 << 20)
    assert size - exact <= footprint.peak_bytes() < size + (16 << 20) and footprint.used_bytes() < 16 << 20
    footprint.reset_peak()
    assert footprint.peak_bytes() < 16 << 20
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * size)
        file.flush()
        with mmap.mmap(file.fileno(), size) as mapped:
            assert sum(mapped[::4096]) == ord("x") * size // 4096
            assert footprint.peak_bytes() < 16 << 20
    assert footprint.limit_bytes() <= (1 - host.LEFT_FREE) * (memory.host_room_bytes() + (64 << 20))


def test_the_peak_is_not_that_of_who_started_the_process():
    """As the largest resident size of `getrusage` is, which survives the start of another program."""
    held = bytearray(b"x") * (256 << 20)
    code = "from brimful.fitting import host; one = host.Footprint(); one.reset_peak(); print(one.peak_bytes())"
    assert int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) < 64 << 20
    del held


def test_what_a_job_holds_already_counts_as_its_own():
    assert 30 << 20 <= host.Footprint(own_bytes=32 << 20).used_bytes() <= 48 << 20


def test_an_address_space_that_is_the_narrowest_limit_refuses(monkeypatch):
    monkeypatch.setattr(memory, "host_limits", lambda root: [("the machine's RAM", 1000, 400), ("the limit of its cgroup", 900, 400)])
    for room, ends in ((None, True), (600, True), (500, False), (100, False)):
        monkeypatch.setattr(memory, "address_space_room_bytes", lambda root, room=room: room)
        assert host.ends_processes() is ends
    monkeypatch.setattr(memory, "host_limits", lambda root: [])
    assert not host.ends_processes(), "nothing is known of such a system"


def test_the_address_space_counts():
    """`ulimit -v` of this process."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20), before[1]))
        assert 0 < memory.host_room_bytes() <= 256 << 20
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def named(name, *bases):
    """An error with the name that a framework gives it."""
    return type(name, bases or (Exception,), {})


OUT = [
    MemoryError(),
    named("OutOfMemoryError", RuntimeError)("CUDA out of memory. Tried to allocate 2 GiB"),
    named("ResourceExhaustedError")("OOM when allocating tensor with shape[3]"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"),
    named("XlaRuntimeError", RuntimeError)("RESOURCE_EXHAUSTED: Out of memory allocating 3145728 bytes."),
    named("JaxRuntimeError", RuntimeError)("INTERNAL: Error dispatching computation: Out of memory"),
    named("JaxRuntimeError", RuntimeError)("INTERNAL: YNNPACK operation failed: error"),
    named("UnknownError")("Failed to call ThenRnnForward with model config"),
    OSError(12, "Cannot allocate memory"),
]
OTHER = [
    None,
    ValueError("shapes (3,) and (4,) do not match"),
    KeyError("out of memory"),
    AssertionError("the text says: out of memory"),
    RuntimeError("CUDA error: device-side assert triggered"),
    DoesNotFit("out of memory"),
    CannotSplit("ran out of memory"),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("error", OUT, ids=lambda error: type(error).__name__)
def test_out_of_memory_is_seen(error):
    """By itself, and behind what was raised from it or while it was handled."""
    assert failure.is_out_of_memory(error)
    for link in ("__cause__", "__context__"):
        wrapped = ValueError("in layer dense_1")
        setattr(wrapped, link, error)
        assert failure.is_out_of_memory(wrapped)


@pytest.mark.parametrize("error", OTHER, ids=lambda error: type(error).__name__)
def test_other_errors_are_left_alone(error):
    assert not failure.is_out_of_memory(error)


def test_errors_in_a_circle_end():
    first, second = ValueError("a"), ValueError("b")
    first.__context__, second.__context__ = second, first
    assert not failure.is_out_of_memory(first)


class Tensor:
    """What a frame may hold."""


def failing(held):
    tensor = Tensor()
    held.append(weakref.ref(tensor))
    raise MemoryError("first line\nsecond line")


@pytest.mark.parametrize("chained", [False, True])
def test_what_a_failure_held_is_let_go(chained):
    """Without the collector, and also what the error before it held."""
    held = []
    gc.disable()
    try:
        try:
            try:
                failing(held)
            except MemoryError as first:
                if not chained:
                    raise
                failing_again = failing
                failing_again(held)
                raise AssertionError("it raised") from first
        except MemoryError as error:
            kept = error
            said = failure.forget(error)
        assert said == "MemoryError: first line"
        assert held and all(tensor() is None for tensor in held)
        assert kept.__traceback__ is None and kept.__context__ is None
    finally:
        gc.enable()


def test_a_shells_last_error_is_let_go(monkeypatch):
    monkeypatch.setattr(sys, "last_value", ValueError("old"), raising=False)
    failure.forget(MemoryError())
    assert sys.last_value is None


def test_the_line_that_says_it_is_the_one_that_is_shown():
    """TensorFlow and Keras say first where it happened."""
    error = named("ResourceExhaustedError")("Graph execution error:\n\nDetected at node x\n\nOOM when allocating tensor with shape[96,8]\n")
    assert failure.first_line(error) == "ResourceExhaustedError: OOM when allocating tensor with shape[96,8]"
    assert failure.first_line(RuntimeError()) == "RuntimeError"
    assert failure.first_line(RuntimeError("\n  plain words\nmore")) == "RuntimeError: plain words"


def test_lines_go_to_standard_error(capsys):
    lines.say("something")
    with lines.quiet():
        lines.say("nothing")
    with lines.quiet(False):
        lines.say("more")
    written = capsys.readouterr()
    assert written.out == "" and written.err == "brimful: something\nbrimful: more\n"


def test_the_line_at_the_start():
    assert (
        lines.started(128, 32, 2 << 30, 3 << 30, "same gradients")
        == "asked 128, running 4 × 32, predicted 2.0 GiB of 3.0 GiB, same gradients"
    )
    assert lines.started(100, 43, None, 1 << 30, "as it stands") == "asked 100, running 3 × 34 or less, 1.0 GiB free, as it stands"
