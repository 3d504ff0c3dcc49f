"""`brimful.data`: batches from files, inside a budget, in an order that can be had again."""

import gc
import json
import pickle
import signal
import subprocess
import sys
import threading
import time

import brimful
import numpy as np
import pytest
from brimful import data

ROWS, COLUMNS = 5003, 6
SHUFFLES = ("none", "window", "block", "global")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows whose first number is their place: as an array, as an array of records, and as text in two files."""
    folder = tmp_path_factory.mktemp("data")
    x = np.random.default_rng(1).normal(size=(ROWS, COLUMNS)).astype("float32")
    x[:, 0] = np.arange(ROWS)
    np.save(folder / "x.npy", x)
    records = np.zeros(ROWS, dtype=[("a", "f4", (COLUMNS,)), ("place", "i8"), ("y", "f8")])
    records["a"], records["place"], records["y"] = x, np.arange(ROWS), 3 * x[:, 1].astype("f8")
    np.save(folder / "records.npy", records)
    for part, rows in (("one", range(0, 2000)), ("two", range(2000, ROWS))):
        lines = [f"{row},{x[row, 1]},{'red' if row % 3 else 'blue'},{row % 5}" for row in rows]
        (folder / f"table_{part}.csv").write_text("\n".join(["place,value,colour,y", *lines]) + "\n")
    return folder


def places(loader):
    """The first number of every row, as the batches come."""
    return np.concatenate([(batch[0] if isinstance(batch, tuple) else batch)[:, 0].copy() for batch in loader]).astype(int)


def test_the_package_has_it_without_an_import_of_its_own(folder):
    script = f"import brimful; print(len(brimful.data.open({str(folder / 'x.npy')!r})))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(ROWS)
    assert "data" in dir(brimful)


def test_columns_types_and_rows_are_known_at_once(folder):
    ds = data.open(folder / "records.npy", labels="y")
    assert (ds.rows, len(ds), ds.columns, ds.format) == (ROWS, ROWS, ["a", "place", "y"], "npy")
    assert ds.types == {"a": f"float32[{COLUMNS}]", "place": "int64", "y": "float64"}
    assert "5,003 rows" in repr(ds)


def test_a_table_as_text_becomes_features_and_labels(folder):
    categories = {"colour": ["red", "blue"]}
    ds = data.open(folder / "table_*.csv", columns=["place", "value", "colour"], labels="y", categories=categories, label_dtype="int32")
    x, y = next(iter(ds.batches(7, memory="8MiB")))
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((7, 3), np.float32, (7,), np.int32)
    assert x[:, 0].tolist() == [*range(7)] and y.tolist() == [row % 5 for row in range(7)]
    assert x[:, 2].tolist() == [0.0 if row % 3 else 1.0 for row in range(7)]
    columns, labels = next(iter(ds.batches(7, memory="8MiB", separate=True)))
    assert [*columns] == ["place", "value", "colour"] and columns["place"].dtype == np.int64 and labels.shape == (7,)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_each_row_comes_once_and_the_order_is_the_seed_s(folder, shuffle):
    def loader(**options):
        return data.open(folder / "x.npy").batches(64, memory="2MiB", shuffle=shuffle, **{"seed": 5, **options})

    one = loader(threads=1)
    first, second = places(one), places(one)
    assert sorted(first) == sorted(second) == [*range(ROWS)]
    assert (first == np.arange(ROWS)).all() == (shuffle == "none") == (first == second).all()
    many = loader(threads=4)
    assert (places(many) == first).all() and (places(many.epoch(0)) == first).all() and (places(many) == second).all()
    assert shuffle == "none" or (places(loader(seed=6)) != first).any()


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("source", ("x.npy", "table_*.csv"))
def test_an_epoch_goes_on_where_it_was_left(folder, shuffle, source):
    def loader():
        ds = data.open(folder / source, columns=["place"] if "csv" in source else None)
        return ds.batches(100, memory="4MiB", shuffle=shuffle, seed=9)

    whole, next_epoch = loader(), None
    expected = [batch[:, 0].copy() for batch in whole]
    next_epoch = places(whole)
    for taken in (0, 1, 7, len(expected) - 1, len(expected)):
        left = loader()
        for number, _ in enumerate(left):
            if number + 1 >= taken:
                break
        if taken == 0:
            left = loader()
        state = json.loads(json.dumps(left.state()))
        other = loader()
        other.resume(state)
        rest = [*other._batches(other._raw(None), np.copy)]
        if taken == len(expected):
            # Nothing of that epoch is left: it is the next one that begins.
            assert (np.concatenate([batch[:, 0] for batch in rest]) == next_epoch).all()
        else:
            assert [batch[:, 0].tolist() for batch in rest] == [batch.tolist() for batch in expected[taken:]]
            assert (places(other) == next_epoch).all()


def test_a_state_of_other_data_is_refused(folder):
    state = data.open(folder / "x.npy").batches(64, memory="2MiB", seed=1, shuffle=True).state()
    with pytest.raises(data.DataError, match="seed"):
        data.open(folder / "x.npy").batches(64, memory="2MiB", seed=2, shuffle=True).resume(state)
    with pytest.raises(data.DataError, match="files"):
        data.open(folder / "records.npy").batches(64, memory="2MiB", seed=1, shuffle=True).resume(state)
    with pytest.raises(data.DataError, match="no state"):
        data.open(folder / "x.npy").batches(64, memory="2MiB").resume({"epoch": 1})


def test_a_caller_who_keeps_every_batch_is_told(folder):
    loader = data.open(folder / "x.npy").batches(64, memory="1MiB")
    with pytest.raises(data.BudgetHeldByCaller, match="still held by the caller") as told:
        kept = []
        for batch in loader:
            kept.append(batch)
    assert isinstance(told.value, MemoryError) and isinstance(told.value, data.DataError) and isinstance(told.value, ValueError)
    assert told.value.batches == len(kept) and told.value.memory_bytes == 1 << 20
    assert pickle.loads(pickle.dumps(told.value)).batches == len(kept)
    # What is held stays as it is.
    assert [batch[0, 0] for batch in kept] == [64.0 * number for number in range(len(kept))]


def test_batches_in_cycles_that_nobody_reaches_are_taken_back(folder):
    gc.disable()
    try:
        taken = 0
        for batch in data.open(folder / "x.npy").batches(64, memory="1MiB"):
            circle = [batch]
            circle.append(circle)
            taken += len(batch)
        assert taken == ROWS
    finally:
        gc.enable()


def test_the_interpreter_is_free_while_a_batch_is_waited_for(folder, monkeypatch):
    monkeypatch.setattr(data.dataset.settings, "PATIENCE_MS", 60_000)
    loader = data.open(folder / "x.npy").batches(64, memory="1MiB")
    batches, kept = iter(loader), []
    for _ in range(loader.plan.batch_slots):
        kept.append(next(batches))

    def let_go():
        time.sleep(0.2)
        kept.clear()

    thread = threading.Thread(target=let_go)
    thread.start()
    assert next(batches)[0, 0] == 64 * loader.plan.batch_slots
    thread.join()


def test_an_interrupt_is_heard_while_a_batch_is_waited_for_and_nothing_is_lost(folder):
    script = f"""
import numpy as np
from brimful import data
data.dataset.settings.PATIENCE_MS = 600_000
loader = data.open({str(folder / "x.npy")!r}).batches(64, memory="1MiB")
batches, kept, rows = iter(loader), [], 0
native = loader
raw = loader._raw(None)
try:
    for fields in raw:
        kept.append(fields[0]); rows += len(fields[0])
        if len(kept) == loader.plan.batch_slots:
            print("waiting", flush=True)
except KeyboardInterrupt:
    state = loader.state()
    kept.clear()
    loader.resume(state)
    rows += sum(len(batch) for batch in loader)
    print("rows", rows, flush=True)
"""
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=120)
    finally:
        run.kill()
    assert said == f"rows {ROWS}\n"


def test_an_interrupt_is_heard_while_rows_go_to_the_disk(folder, tmp_path):
    line = ",".join(["0.123"] * 50) + "\n"
    with open(tmp_path / "large.csv", "w") as file:
        file.write(",".join(f"c{number}" for number in range(50)) + "\n")
        for _ in range(1000):
            file.write(line * 500)
    script = f"""
from brimful import data
ds = data.open({str(tmp_path / "large.csv")!r})
print("begins", flush=True)
try:
    ds.batches(256, memory="16MiB", shuffle="global")
    print("too late", flush=True)
except KeyboardInterrupt:
    print("heard", flush=True)
"""
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout.readline() == "begins\n"
        time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=120)
    finally:
        run.kill()
    assert said == "heard\n"


def test_a_budget_below_the_floor_is_refused_with_the_number(folder):
    ds = data.open(folder / "x.npy")
    with pytest.raises(data.BelowFloor, match="at least") as refused:
        ds.batches(64, memory="10KiB")
    floor = refused.value.floor_bytes
    assert refused.value.memory_bytes == 10 << 10 and pickle.loads(pickle.dumps(refused.value)).floor_bytes == floor
    assert sorted(places(ds.batches(64, memory=floor))) == [*range(ROWS)]
    with pytest.raises(data.BelowFloor):
        ds.batches(64, memory=floor - 1)


def test_plans_say_what_statistics_show(folder):
    ds = data.open(folder / "x.npy")
    plan = ds.plan(64, memory="2MiB", shuffle="block")
    assert plan.floor_bytes <= plan.expected_bytes <= plan.memory_bytes == 2 << 20
    text = str(plan)
    assert text.startswith("Fits 2.0 MiB") and "rows are mixed together" in text and "5,003 rows" in text
    loader = ds.batches(64, memory="2MiB", shuffle="block")
    assert (places(loader) >= 0).all()
    stats = loader.stats()
    assert stats.rows == ROWS and stats.batches == len(loader) == plan.batches
    assert stats.used_bytes <= stats.peak_bytes <= plan.expected_bytes and sum(stats.parts.values()) >= stats.peak_bytes
    assert stats.process_peak_bytes >= stats.process_bytes > stats.peak_bytes
    assert "The budget: " in str(stats)
    unsaid = ds.plan(64)
    assert any("no memory was given" in note for note in unsaid.notes)


@pytest.mark.parametrize(
    ("environment", "expected", "whose"),
    [
        ({"RANK": "1", "WORLD_SIZE": "3"}, (1, 3), "RANK"),
        (
            {"TF_CONFIG": json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}, "task": {"type": "worker", "index": 1}})},
            (2, 3),
            "TF",
        ),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1), None),
        ({"RANK": "x", "WORLD_SIZE": "3"}, (0, 1), None),
        ({"TF_CONFIG": "{"}, (0, 1), None),
    ],
)
def test_the_rank_is_found_out_and_said(folder, monkeypatch, environment, expected, whose):
    for name in ("RANK", "WORLD_SIZE", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    loader = data.open(folder / "x.npy").batches(64, memory="2MiB")
    shard = loader.state()["position"]["shard"]
    assert (shard["rank"], shard["world"]) == expected
    assert any(whose in note for note in loader.plan.notes) if whose else not any("rank" in note for note in loader.plan.notes)


@pytest.mark.parametrize("remainder", ("drop", "keep"))
def test_ranks_share_the_rows(folder, remainder):
    ds = data.open(folder / "x.npy")
    shares = [places(ds.batches(64, memory="2MiB", shuffle=True, rank=rank, world=4, remainder=remainder)) for rank in range(4)]
    together = np.concatenate(shares)
    assert len({*together.tolist()}) == len(together) == (ROWS if remainder == "keep" else ROWS // 4 * 4)
    assert len({len(share) for share in shares}) == (2 if remainder == "keep" else 1)


def test_bad_rows_are_handled_as_told_and_shown_with_their_places(tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3,what\n5,6\n")
    ds = data.open(tmp_path / "bad.csv", types={"b": "float64"})
    with pytest.raises(data.DataError, match=r"bad\.csv.*line 3"):
        [*ds.batches(2, memory="8MiB")]
    skipping = ds.batches(2, memory="8MiB", bad_rows="skip")
    assert np.concatenate([batch.copy() for batch in skipping]).tolist() == [[1, 2], [5, 6]]
    assert skipping.stats().bad_rows == 1 and "line 3" in str(skipping.stats())
    null = np.concatenate([batch.copy() for batch in ds.batches(2, memory="8MiB", bad_rows="null")])
    assert null.shape == (3, 2) and np.isnan(null[1, 1])


def test_another_epoch_ends_the_one_before(folder):
    loader = data.open(folder / "x.npy").batches(64, memory="2MiB")
    first = iter(loader)
    next(first)
    assert len(places(loader)) == ROWS
    with pytest.raises(data.DataError, match="has begun another"):
        next(first)


def test_arrays_outlive_their_loader(folder):
    loader = data.open(folder / "x.npy").batches(64, memory="2MiB")
    batches = iter(loader)
    kept = next(batches)
    before = kept.copy()
    for _ in batches:
        pass
    del loader, batches, _
    gc.collect()
    assert (kept == before).all() and kept.flags.writeable and kept.ctypes.data % 64 == 0
    kept *= 2
    assert (kept == 2 * before).all()


def test_no_thread_stays(folder):
    def reading():
        return [name for name in _thread_names() if name.startswith("brimful-data")]

    loader = data.open(folder / "x.npy").batches(8, memory="1MiB", threads=2)
    batches = iter(loader)
    next(batches)
    batches.close()
    assert reading() == []
    with loader:
        next(iter(loader))
    assert reading() == []


def _thread_names():
    from pathlib import Path

    return [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda ds: ds.batches(0), "batch_rows is 0"),
        (lambda ds: ds.batches(2.5), "batch_rows is 2.5"),
        (lambda ds: ds.batches(8, memory="lots"), "memory is 'lots'"),
        (lambda ds: ds.batches(8, shuffle="well"), "shuffle is 'well'"),
        (lambda ds: ds.batches(8, rank=1), "rank and world"),
        (lambda ds: ds.batches(8, rank=3, world=2), "below the number of ranks"),
        (lambda ds: ds.batches(8, remainder="none"), "remainder is 'none'"),
        (lambda ds: ds.batches(8, bad_rows="burn"), "bad_rows is 'burn'"),
        (lambda ds: ds.batches(8, threads=0), "threads is 0"),
        (lambda ds: ds.batches(8, to="cupy"), "to is 'cupy'"),
        (lambda ds: ds.batches(8, pin=True), "pin=True is PyTorch's"),
        (lambda ds: ds.batches(8, shuffle="window", window_rows=5000, memory="500KiB"), "a window of 5000 rows does not fit"),
        (lambda ds: ds.batches(8).epoch(-1), "the epoch is -1"),
        (lambda ds: data.open("nowhere.npy"), "nowhere.npy: there is no such file"),
        (lambda ds: ds.batches(8, seed="x"), "seed is 'x'"),
        (lambda ds: data.open(5), "5 is no path"),
        (lambda ds: data.open([]), "no file was given"),
        (lambda ds: data.open(ds.paths, labels="z"), "there is no column 'z'"),
        (lambda ds: data.open(ds.paths, dtype="float99"), "there is no type 'float99'"),
        (lambda ds: data.open(ds.paths, delimiter="ab"), "one ASCII character"),
        (lambda ds: data.open(ds.paths, format="xls"), "there is no format 'xls'"),
    ],
)
def test_wrong_arguments_are_said(folder, call, said):
    ds = data.open(folder / "x.npy")
    with pytest.raises(data.DataError) as refused:
        call(ds)
    assert said in str(refused.value)


def test_files_that_are_not_there_are_os_errors_too():
    with pytest.raises(OSError, match="no such file"):
        data.open("nowhere.npy")


def test_progress_is_one_line_where_nobody_watches(folder, capsys):
    loader = data.open(folder / "x.npy").batches(64, memory="2MiB", progress=True)
    assert len(places(loader)) == ROWS
    written = capsys.readouterr().err
    assert written.startswith("epoch 0: 79 batches, 5,003 rows in ") and written.count("\n") == 1
