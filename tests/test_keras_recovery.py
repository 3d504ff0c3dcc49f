"""Out of memory in the middle of a Keras step, for real: nothing is lost and nothing is counted twice.

The memory is taken away by another allocation under the same limit, at random steps and moments: inside the forward pass, inside the
backward pass, between the variables of an optimizer's update, before the average of the weights, and between the calls of a step. On JAX
a program takes all its memory before it runs: there the memory is taken before the program of the gradients or of the update. Memory that
stays away is not tried there: without any, XLA's compiler ends the process.
"""

import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import forked
import numpy as np
import pytest
from framework import HERE, environment

INSIDE = ["forward", "backward", "optimizer"]
BETWEEN = ["keep", "set_seeds"]
#: Of a step in parts on JAX that is not waited for.
OF_A_STEP = ["begun", "forward", "optimizer", "finish"]
#: A few batches of 48 KiB; an activation or a gradient has 2 MiB and more.
READ_AHEAD_BYTES = 256 << 10
#: Weights small beside the activations: parts make the difference.
LARGE_BATCH = [12288, 8, 8, 768]
#: Both matrices larger than what is updated at once.
LARGE_WEIGHTS = [8192, 96, 96, 96]
#: Tokens of 256 numbers each, 64 of them in a sample.
TOKENS = [256, 64, 64, 96]


def transient(failures, steps, moments, size=96, **more):
    """Memory that is back after the failure. A third of the batch of 96 at a time, or all of it."""
    parts = -(-96 // size)
    return {"failures": failures, "steps": steps, "moments": moments, "size": size, "parts": parts, **{"rest_mib": 0.5, "seed": 7, **more}}


def lasting(steps, stays, size, rest_mib, **more):
    """Memory that is gone for whole steps."""
    job = {"failures": 0, "moments": [], "parts": 1, "seed": 7, "shape": LARGE_BATCH, "room_mib": 1500}
    return {**job, "plain": True, "steps": steps, "stays": stays, "size": size, "rest_mib": rest_mib, **more}


#: By name: the backend, the limit of TensorFlow's pool if it is used, and the job. A failure in the pool takes ten seconds, in which
#: TensorFlow waits for memory: those jobs are few of each kind, and run side by side.
POOLED = {
    "tensorflow pool": ("tensorflow", 256, transient(6, 4, INSIDE, joint=True)),
    "tensorflow pool, parts": ("tensorflow", 256, transient(6, 4, INSIDE, size=48, scaled=True)),
    "tensorflow pool, update": ("tensorflow", 256, transient(4, 3, ["optimizer"], joint=True)),
    "tensorflow pool, by rows": ("tensorflow", 256, transient(4, 3, ["optimizer"], blocks=True, shape=LARGE_WEIGHTS)),
    "tensorflow pool, tokens": ("tensorflow", 256, transient(1, 2, ["forward"], size=48, tokens=True, shape=TOKENS)),
    "tensorflow pool, lasting": ("tensorflow", 600, lasting(10, [3, 12], 768, 64)),
}
LIMITED = {
    "tensorflow": ("tensorflow", None, transient(38, 20, INSIDE, room_mib=500)),
    "tensorflow, parts": ("tensorflow", None, transient(38, 20, INSIDE + BETWEEN, size=48, scaled=True, room_mib=500)),
    "jax": ("jax", None, transient(38, 20, ["forward", "optimizer"], room_mib=500)),
    "jax, parts": ("jax", None, transient(38, 20, ["forward", "optimizer", "finish"], size=48, scaled=True, room_mib=500)),
    # Every fourth, sixth or third step, and with it the last one of an epoch, which Keras takes the state of before the next one begins.
    "jax, ahead": ("jax", None, transient(9, 19, ["begun"], joint=True, ahead=2, room_mib=500, rest_mib=12)),
    "jax, far ahead": ("jax", None, transient(7, 21, ["begun"], joint=True, ahead=4, room_mib=500, rest_mib=12, refilled=True)),
    "jax, ahead, parts": ("jax", None, transient(14, 21, OF_A_STEP, size=48, ahead=1, room_mib=500, seed=6)),
    "torch": ("torch", None, transient(24, 13, INSIDE, room_mib=1000)),
    "torch, copies kept": ("torch", None, transient(9, 6, [*INSIDE, "average"], joint=True, room_mib=1000, seed=1)),
    "torch, parts": ("torch", None, transient(24, 13, INSIDE + BETWEEN, size=48, scaled=True, room_mib=1000)),
    "torch, lasting": ("torch", None, lasting(5, [3, 8], 768, 64)),
}
RUNS = {**POOLED, **LIMITED}
TRANSIENT = [name for name in RUNS if "lasting" not in name and "tokens" not in name]
LASTING = [name for name in RUNS if "lasting" in name]


def settings(backend, pool_mib, cache):
    """The environment of a job: no GPU, a pool or a plain allocator, and nothing learnt before."""
    own = {
        **(environment(pool_mib) if pool_mib else os.environ),
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_PLATFORMS": "cpu",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "KERAS_BACKEND": backend,
        "BRIMFUL_CACHE": str(cache),
    }
    if not pool_mib:
        # What is freed goes back at once, or the limit would not be felt. For JAX one heap: a second one has 64 MiB of addresses in reserve, which count
        # as taken already, and which a program that happens to run on it gets when nobody else gets anything: on a busy machine up to a
        # third of the failures were not felt. TensorFlow's C++ needs that reserve for the few bytes that it cannot do without.
        own |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1" if backend == "jax" else "2"}
    return own


def python(script, *args, env, timeout=280):
    return forked.run(HERE / script, *args, env=env, timeout=timeout)


def answer(run):
    """The line of JSON at the end of what a job wrote."""
    lines = run.stdout.splitlines()
    assert run.returncode == 0 and lines, f"it ended with {run.returncode}:\n{run.stderr[-3000:]}"
    return json.loads(lines[-1])


def crashed_below(backend, run):
    """Whether C++ below the framework's allocator asked, while the memory was taken, for a few bytes that it cannot do without: TensorFlow
    writes through what it did not get, JAX and its compiler say so. Only where the whole process is limited, and it says nothing of us."""
    said = any(words in run.stderr for words in ("std::bad_alloc", "LLVM ERROR: Unable to allocate"))
    return (said and run.returncode == -signal.SIGABRT) or (backend == "tensorflow" and run.returncode == -signal.SIGSEGV)


@pytest.fixture(scope="session")
def recovered(tmp_path_factory):
    """What each job answered. Those that wait run side by side, the others one after the other."""

    # Here, and not where they run side by side: pytest makes the folder around the first of them without asking whether another thread does.
    caches = {name: tmp_path_factory.mktemp("cache") for name in RUNS}

    def start(name):
        backend, pool_mib, job = RUNS[name]
        env = settings(backend, pool_mib, caches[name])
        if name in LIMITED or name in LASTING:
            # One operation at a time: what C++ asks for half-way through another, while the memory is taken, it cannot do without,
            # and TensorFlow crashes. Where it stays away, which gaps the pool has would be chance.
            env["TF_NUM_INTEROP_THREADS"] = "1"
        run = python("recovery_job.py", json.dumps(job), env=env)
        if name in LIMITED and crashed_below(backend, run):
            run = python("recovery_job.py", json.dumps(job), env=env)
        return run

    with ThreadPoolExecutor(len(POOLED)) as waiting, ThreadPoolExecutor(1) as busy:
        runs = {name: (waiting if name in POOLED else busy).submit(start, name) for name in RUNS}
        yield lambda name: answer(runs[name].result())


@pytest.mark.parametrize("name", TRANSIENT)
def test_nothing_is_lost(name, recovered):
    """Weights, slots, counters, moving averages, seeds, metrics and logs are those of a run without failures, to the last bit."""
    found = recovered(name)
    assert len(found["failures"]) >= 0.75 * found["planned"], found["reached"]
    assert found["steps"] == 2 * RUNS[name][2]["steps"]
    assert found["size"] == RUNS[name][2]["size"], "the size went well before and stays"
    assert found["difference"] == dict.fromkeys(found["difference"], 0.0)
    assert {"weights", "optimizer", "moving averages", "seeds", "metrics", "logs"} <= set(found["difference"])


@pytest.mark.parametrize("name", TRANSIENT)
def test_the_failures_are_the_frameworks_own(name, recovered):
    """Nothing is raised by the test: each framework said itself that it ran out, at each of the moments."""
    found = recovered(name)
    own = {
        "tensorflow": r"^ResourceExhaustedError: .*OOM when allocating tensor",
        "jax": r"^(JaxRuntimeError|ValueError): (RESOURCE_EXHAUSTED: Out of memory allocating \d+ bytes"
        r"|INTERNAL: (Error dispatching computation: )*(YNNPACK operation failed|Out of memory allocating \d+ bytes))",
        "torch": r"^RuntimeError: .*DefaultCPUAllocator: can't allocate memory",
    }[RUNS[name][0]]
    others = [said for _, _, _, said in found["failures"] if not re.search(own, said)]
    # Where the whole process is limited, C++ and protobuf run out below TensorFlow's allocator now and then, each in words of its
    # own; the pool never does.
    if name in LIMITED and RUNS[name][0] == "tensorflow":
        assert len(others) <= 0.1 * len(found["failures"]), others
    else:
        assert others == []
    in_update = [failed for failed in found["failures"] if failed[2] == 96]
    if RUNS[name][2].get("joint") and RUNS[name][0] != "torch":
        assert in_update == [], "the update is part of the same graph, and all of it is done again"
        assert any(found["before"]) or not RUNS[name][2].get("ahead"), "steps that went well, on states that were given away since"
    elif RUNS[name][2].get("ahead"):
        # Of what is not waited for, nobody knows where it failed: it is taken again from its beginning.
        assert {moment for _, moment in found["reached"]} == {*RUNS[name][2]["moments"]}
    elif RUNS[name][2]["moments"] == ["optimizer"]:
        assert in_update == found["failures"]
    else:
        assert 0 < len(in_update) < len(found["failures"])


@pytest.mark.parametrize("name", [name for name in POOLED if name in TRANSIENT and not RUNS[name][2].get("blocks")])
def test_the_memory_is_back(name, recovered):
    """After a failure the pool holds what it held before the attempt, but for batches that Keras reads ahead.

    By rows the small weights come back from the host into other places of the pool, which gives a tensor up to twice what it needs.
    """
    found = recovered(name)
    assert len(found["used"]) == len(found["failures"]) > 0
    for before, after in found["used"]:
        assert after - before <= READ_AHEAD_BYTES, found["used"]


@pytest.mark.parametrize("name", ["tensorflow pool, by rows", "tensorflow pool, tokens"])
def test_a_weight_that_was_written_by_rows_is_read_without_a_copy(name, recovered):
    """TensorFlow would copy it in each forward pass: as much memory as the weight has, however few samples a part takes."""
    found = recovered(name)
    assert found["lean"] and found["copied"] == 0, found


def test_rows_that_wait_for_the_other_parts_make_room(recovered):
    """The second part runs out: the rows of the first go to the host, and it is tried again as large as it was. The same training."""
    found = recovered("tensorflow pool, tokens")
    (_, tried, done, _), *others = found["failures"]
    assert (tried, done, others) == (48, 48, [])
    assert min(found["sizes"]) == 48 and found["most_parts"] == 2
    # In one graph and in operations of their own the optimizer's numbers round differently.
    assert max(found["difference"].values()) <= 1e-6, found["difference"]


@pytest.mark.parametrize("name", LASTING)
def test_memory_that_stays_away_halves_and_comes_back(name, recovered):
    """While memory is short the same samples are taken in parts, with the same result; when it is back, the batch is whole again."""
    found = recovered(name)
    assert len(found["failures"]) >= 2 * 2, "each time once more as it was, and then in parts"
    stays = RUNS[name][2]["stays"]
    assert [found["sizes"][step - 1] for step in stays] and all(found["sizes"][step - 1] < 768 for step in stays), found["sizes"]
    assert found["size"] == 768, found["sizes"]
    assert found["most_parts"] >= 2
    worst = max(found["difference"].values())
    assert worst <= 1e-5, found


def test_how_many_failures_there_were(recovered):
    """The promise is about two hundred of them."""
    count = {name: len(recovered(name)["failures"]) for name in RUNS}
    print(count)
    assert sum(count.values()) >= 200, count


def case(name, *args, tmp_path, backend="tensorflow", pool_mib=None, **environ):
    """One case of `fit_case_job.py`."""
    return python("fit_case_job.py", name, *args, env={**settings(backend, pool_mib, tmp_path / "cache"), **environ}, timeout=120)


#: An image whose activations have 128 MiB, in 100 MiB. In 270 MiB: weights of 84 MiB with Adam's two slots fit, their gradients beside them do not; with 126 MiB the slots do not.
TOO_LARGE = {
    "planned": (
        1024,
        "images",
        "100MiB",
        r"not even one sample of the batch of 2 fits into .*needs .* at least\. What the plan says would help: \w+",
    ),
    "tried": (
        1 << 20,
        "without",
        "auto",
        r"not even one sample of the batch of 2 fits into .*Try mixed precision, an optimizer with less state",
    ),
    "built": (
        3 << 19,
        "with",
        "auto",
        r"the weights and the optimizer's state do not fit .*OOM when allocating.*What the plan says would help: \w+",
    ),
}


@pytest.fixture(scope="module")
def too_large(tmp_path_factory):
    """Those that wait for memory wait together."""
    folders = {name: tmp_path_factory.mktemp(name) for name in TOO_LARGE}
    with ThreadPoolExecutor(len(TOO_LARGE)) as waiting:

        def start(name):
            width, plan, memory, _ = TOO_LARGE[name]
            return case("does_not_fit", width, plan, memory, tmp_path=folders[name], pool_mib=270)

        runs = {name: waiting.submit(start, name) for name in TOO_LARGE}
        yield {name: answer(run.result()) for name, run in runs.items()}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_one_sample_that_does_not_fit_is_said(name, too_large):
    """The error says what does not fit and what would help, and no step was taken."""
    found = too_large[name]
    assert found["said"] and re.match(TOO_LARGE[name][3], found["said"], re.DOTALL), found["said"]
    assert found["begun"] == [] and found["same"]


def test_the_next_run_starts_with_the_size_that_went_well(tmp_path):
    """The first process finds the size by failing; the second one has it from the first step on.

    The activations of a whole batch have 64 MiB, and their gradient as much again: they never fit at once, in whatever order operations run.
    """
    first = answer(case("learnt", tmp_path=tmp_path, pool_mib=120))
    assert first["failures"] >= 1 and first["size"] < 2048
    second = answer(case("learnt", tmp_path=tmp_path, pool_mib=120))
    assert second == {"size": first["size"], "failures": 0, "steps": 2}


def test_parts_are_cut_from_arrays_on_the_device(tmp_path):
    """On a GPU Keras has put the batch there before the step; elsewhere its arrays are NumPy's."""
    assert answer(case("parts_on_device", tmp_path=tmp_path, backend="jax")) == {"same": True}


@pytest.mark.parametrize("data", ["short", "arrays", "generator"])
def test_states_on_jax_are_given_away_from_copy_to_copy(tmp_path, data):
    """What a lap began with is held, what comes between is written over, and the training is Keras's to the last bit.

    The first step of a job is waited for; an epoch ends a lap, because Keras has the variables then; from the second one on, laps have four. A lap
    that follows another one is not waited for: the state goes on in its place, and the copy is put aside. A lap of short steps goes on where
    no batch is held for it.
    """
    found = answer(case("in_laps", data, tmp_path=tmp_path, backend="jax"))
    assert found["same"] and not found["held"]
    assert found["copied"] == [*(True, False, False, False, False), *(True, False, False, False, False, False)]
    assert found["given"] == [not copied for copied in found["copied"]]
    assert found["aside"] == ([] if data == "arrays" else [5 + 4])


@pytest.mark.parametrize(("when", "copied", "again"), [("at once", [True, False, False] * 2, 2), ("late", [True, *[False] * 5], 5)])
def test_a_lap_whose_copy_is_lost_is_taken_again_from_the_one_before(tmp_path, when, copied, again):
    """The first step is waited for, the sixth after it fails. A copy that cannot be begun is made when all steps are done, as for a first lap; one
    that turns out to have failed leaves what the lap before began with, and all its batches."""
    found = answer(case("lost_copy", when, tmp_path=tmp_path, backend="jax"))
    assert found == {"begun": copied, "again": [again], "same": True}


@pytest.mark.parametrize(("how", "drawn"), [("host", 5), ("device", 5), ("written", 0)])
def test_batches_of_arrays_are_drawn_again_and_not_held(tmp_path, how, drawn):
    """The first step of six is waited for, the last one fails, with all since the second: Keras's order, and its arrays as they were. Where a callback
    writes into them, batches are held."""
    found = answer(case("drawn_again", how, tmp_path=tmp_path, backend="jax"))
    assert found == {"held": 5 - drawn, "drawn": drawn, "tries": 2 * drawn, "alike": True, "failures": 1, "put_back": True, "same": True}


def test_a_callback_is_told_the_logs_of_each_step(tmp_path):
    """Keras's own, also of the step that fails. The first step is waited for, the second one's logs are asked for, the third's and the fourth's are sent
    without asking; the fifth fails, and is waited for as is all that comes after it."""
    assert answer(case("read_logs", tmp_path=tmp_path, backend="jax")) == {"sent": 2, "told": 6, "same": True}


def test_an_interrupt_in_a_lap_loses_nothing(tmp_path):
    """The first step is waited for; the fourth is interrupted when its state is gone, and taken again from the lap's copy before fit ends."""
    assert answer(case("interrupted", tmp_path=tmp_path, backend="jax")) == {"begun": 3, "steps": 4, "same": True}


@pytest.mark.parametrize("whose", ["jax", "keras"])
def test_a_batch_that_does_not_get_to_the_device_is_sent_again(tmp_path, whose):
    """It would be lost with all after it: it is Keras's own iterator that fails. Twelve batches, each sent as a whole, and six more tries."""
    assert answer(case("fetched", whose, tmp_path=tmp_path, backend="jax")) == {"failed": 6, "put_back": True, "same": True}


def test_what_is_refused_ahead_is_waited_for_from_then_on(tmp_path):
    """Once: tried again and again, each step of a tight job would be taken twice."""
    assert answer(case("refused_ahead", tmp_path=tmp_path, backend="jax")) == {"begun": 1, "failures": 1, "steps": 6}


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_another_backend_does_not_load_tensorflow(tmp_path, backend):
    """Keras would for the plan's sake: seconds, and hundreds of megabytes."""
    assert answer(case("loaded", tmp_path=tmp_path, backend=backend)) == {"planned": True, "tensorflow": False}


def test_a_killed_run_goes_on_where_its_checkpoint_was(tmp_path):
    """Killed in the middle of an epoch and started again, in parts: the weights and slots of a plain run that nobody killed."""

    def killed_and_started_again(how):
        killed = case("resume", tmp_path / how, how, 8, tmp_path=tmp_path)
        assert killed.returncode == -9, killed.stderr[-2000:]
        return answer(case("resume", tmp_path / how, how, tmp_path=tmp_path))

    with ThreadPoolExecutor(2) as both:
        runs = {how: both.submit(killed_and_started_again, how) for how in ("plain", "split")}
        whole = answer(case("resume", tmp_path / "whole", "plain", tmp_path=tmp_path))
        again = {how: run.result() for how, run in runs.items()}
    assert whole["epochs"] == [0, 1, 2, 3]
    assert {how: found["epochs"] for how, found in again.items()} == {"plain": [2, 3], "split": [2, 3]}, "from the epoch it was killed in"
    assert (again["plain"]["parts"], again["split"]["parts"]) == (1, 3)
    assert again["plain"]["state"] == whole["state"]
    for left, right in zip(whole["state"], again["split"]["state"], strict=True):
        left, right = np.asarray(left), np.asarray(right)
        assert abs(left - right).max() <= 1e-5 * max(1, abs(left).max())


def test_several_devices_are_refused(tmp_path):
    """The error names how many there are and what works; nothing is trained, and nothing hangs."""
    mirrored = answer(case("replicas", tmp_path=tmp_path, backend="tensorflow"))
    parallel = answer(case("replicas", tmp_path=tmp_path, backend="jax", XLA_FLAGS="--xla_force_host_platform_device_count=2"))
    with ThreadPoolExecutor(2) as ranks:
        meet = tmp_path / "meet"
        both = [ranks.submit(case, "replicas", meet, tmp_path=tmp_path, backend="torch", RANK=rank) for rank in "01"]
        distributed = [answer(rank.result()) for rank in both]
    counted = ["over 2 replicas", "over several devices", "on 2 ranks", "on 2 ranks"]
    for found, words in zip([mirrored, parallel, *distributed], counted, strict=True):
        assert words in found["said"] and "run model.fit itself" in found["said"], found["said"]
        assert found["same"]
