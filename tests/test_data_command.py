"""`brimful data …` as a person types it, and `data check` around a script that holds too much."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import BINARY

MIB = 1 << 20


def data(*words, cwd, code=0, **environment):
    run = subprocess.run(
        [BINARY, "data", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "BRIMFUL_PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == code, run.stderr
    return run


@pytest.fixture
def table(tmp_path):
    """1,000 rows; one of them is bad."""
    lines = ["a,b,name,y"] + [f"{row},{row / 8},n{row % 3},{row % 2}" for row in range(1000)]
    lines[500] = "499,oops,n1,1"
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_a_plan_before_anything_is_read(table):
    """The verdict comes first, the parts add up, a budget that is too small has an exit code of its own."""
    said = data("plan", "t.csv", "--memory", "8MiB", "--type", "b=float64", cwd=table).stdout
    assert said.startswith("It fits: at most ") and "of 8.00 MiB." in said and "1 column of text is left out: name" in said
    plan = json.loads(data("plan", "t.csv", "--memory", "8MiB", "--format", "json", cwd=table).stdout)
    parts = [plan[f"{name}_bytes"] for name in ("index", "reading", "window", "batch")]
    assert plan["schema"] == 1 and sum(parts) == plan["expected_bytes"] <= 8 * MIB and plan["rows"] == 1000
    small = data("plan", "t.csv", "--memory", "1KiB", cwd=table, code=1)
    assert "1.00 KiB is less than the" in small.stderr and "give at least that much memory" in small.stderr


def test_bad_rows_are_handled_as_told(table):
    """They stop with file and line, or are counted and left out."""
    words = ["t.csv", "--columns", "a,b,y", "--type", "b=float64"]
    assert "t.csv, line 501: 'oops' in column 'b' is not float64" in data("describe", *words, cwd=table, code=2).stderr
    found = json.loads(data("describe", *words, "--bad-rows", "skip", "--format", "json", cwd=table).stdout)
    assert (found["rows"], found["bad_rows"]) == (999, 1)
    a = next(column for column in found["columns"] if column["name"] == "a")
    rows = [row for row in range(1000) if row != 499]
    assert (a["min"], a["max"], a["missing"]) == (0, 999, 0)
    assert a["mean"] == pytest.approx(np.mean(rows)) and a["std"] == pytest.approx(np.std(rows))


@pytest.mark.parametrize("shuffle", ["none", "global"])
def test_convert_writes_all_rows_in_the_order_that_was_asked_for(table, shuffle):
    """And nothing where the name is not one of a format that is written."""
    words = ["t.csv", "--columns", "a,y", "--shuffle", shuffle, "--memory", "8MiB"]
    assert "999" not in data("convert", *words, "-o", "t.npy", cwd=table).stderr
    rows = np.load(table / "t.npy")
    assert rows.dtype == np.int64 and sorted(rows[:, 0]) == list(range(1000))
    assert (list(rows[:, 0]) == list(range(1000))) == (shuffle == "none")
    data("convert", "t.npy", "-o", "t.parquet", cwd=table)
    parquet = pytest.importorskip("pyarrow.parquet").read_table(table / "t.parquet")
    assert parquet.num_rows == 1000
    assert "only .npy and .parquet are written" in data("convert", *words, "-o", "t.doc", cwd=table, code=2).stderr
    assert sorted(os.listdir(table)) == ["t.csv", "t.npy", "t.parquet"]


@pytest.mark.parametrize("shuffle", ["none", "global"])
def test_convert_keeps_names_and_types_and_says_what_it_leaves_out(tmp_path, shuffle):
    """Numbers that `float32` does not have stay what they are; text is left out, and named."""
    ids = range(16777216, 16777222)
    (tmp_path / "t.csv").write_text("when,id,x,flag,name\n" + "".join(f"d{i},{i},{i / 3},{'true' if i % 2 else 'false'},n\n" for i in ids))
    said = data("convert", "t.csv", "-o", "t.parquet", "--shuffle", shuffle, cwd=tmp_path).stdout
    assert said.splitlines()[1:] == ["note: 2 columns of text are left out: when, name"]
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "t.parquet")
    assert [(field.name, str(field.type)) for field in parquet.schema] == [("id", "int64"), ("x", "double"), ("flag", "bool")]
    rows = sorted(parquet.to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": i, "x": i / 3, "flag": i % 2 == 1} for i in ids]


def test_convert_to_one_array_takes_a_type_that_holds_all(tmp_path):
    """Whole numbers alone stay whole; beside fractions, those that are rounded are counted; a type that is asked for is obeyed, and said."""
    large = 9007199254740993
    (tmp_path / "t.csv").write_text(f"id,y,x\n{large},1,0.5\n3,2,0.1\n")
    assert len(data("convert", "t.csv", "-c", "id,y", "-o", "whole.npy", cwd=tmp_path).stdout.splitlines()) == 1
    whole = np.load(tmp_path / "whole.npy")
    assert whole.dtype == np.int64 and whole.tolist() == [[large, 1], [3, 2]]
    said = data("convert", "t.csv", "-o", "all.npy", cwd=tmp_path).stdout
    assert "note: 1 number of 'id' (int64) of 2^53 or more may have been rounded to float64" in said
    assert np.load(tmp_path / "all.npy").tolist() == [[float(large), 1, 0.5], [3, 2, 0.1]]
    said = data("convert", "t.csv", "-o", "small.npy", "--dtype", "float32", cwd=tmp_path).stdout
    assert "does not have were rounded or cut to it, as asked for: id (int64), y (int64), x (float64)" in said
    assert np.load(tmp_path / "small.npy").dtype == np.float32
    data("convert", "t.csv", "-o", "t.parquet", "-l", "x,y", "--dtype", "float32", cwd=tmp_path)
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "t.parquet")
    assert [(field.name, str(field.type)) for field in parquet.schema] == [("id", "float"), ("x", "double"), ("y", "int64")]


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_convert_keeps_rows_with_gaps_in_whole_numbers(tmp_path, policy):
    """Behind the sample that the type comes from: the column has floats then, which is said; no row is lost and none is 0 instead."""
    rows = [str(row) for row in range(300_000)]
    rows[290_000], rows[290_001] = "", "0.5"
    (tmp_path / "t.csv").write_text("n,id\n" + "".join(f"{n},{row}\n" for row, n in enumerate(rows)))
    said = data("convert", "t.csv", "-o", "t.parquet", "--bad-rows", policy, cwd=tmp_path).stdout
    note = "'n' is float64, not int64: it has 1 missing value (NaN) and 1 number that int64 does not have"
    assert said.splitlines()[1:] == [f"note: {note}"]
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "t.parquet")
    n, ids = table["n"].to_numpy(), table["id"].to_numpy()
    assert ids.dtype == np.int64 and len(ids) == 300_000 and np.isnan(n[290_000]) and n[290_001] == 0.5
    assert np.array_equal(np.delete(n, [290_000, 290_001]), np.delete(np.arange(300_000.0), [290_000, 290_001]))


def test_a_sample_is_of_the_rows(table):
    """Drawn without repetition, the same for the same seed."""
    first = data("sample", "t.csv", "--columns", "a,y", "-n", 20, "--seed", 1, cwd=table).stdout
    rows = [line.split(",") for line in first.splitlines()]
    assert rows[0] == ["a", "y"] and len(rows) == 21 and len({row[0] for row in rows[1:]}) == 20
    assert all(int(a) % 2 == int(y) for a, y in rows[1:])
    assert first == data("sample", "t.csv", "--columns", "a,y", "-n", 20, "--seed", 1, cwd=table).stdout


def test_numbers_are_those_of_the_file(tmp_path):
    """Whole numbers beyond 2^53 too, in the rows and in the ranges; the deviation of large numbers is that of what is between them."""
    (tmp_path / "t.csv").write_text("id,v\n9007199254740993,0.1\n9007199254740995,0.2\n")
    assert data("sample", "t.csv", cwd=tmp_path).stdout == "id,v\n9007199254740993,0.1\n9007199254740995,0.2\n"
    said = data("describe", "t.csv", cwd=tmp_path).stdout.splitlines()[3].split()
    assert (said[3], said[5], said[6]) == ("9007199254740993", "9007199254740995", "1")
    [column, _] = json.loads(data("describe", "t.csv", "--format", "json", cwd=tmp_path).stdout)["columns"]
    assert (column["min"], column["max"], column["std"]) == (9007199254740993, 9007199254740995, 1)
    np.save(tmp_path / "t.npy", np.array([[0.1, 0.7]], dtype=np.float32))
    assert data("sample", "t.npy", cwd=tmp_path).stdout == "x.0,x.1\n0.1,0.7\n"


def test_gaps_in_whole_numbers_are_missing_not_bad(tmp_path):
    """They are counted and drawn as nothing; where floats round the others, that is said."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"id": [2**53 + 1, None, 7], "n": pa.array([1, 2, None], pa.int8())}), tmp_path / "t.parquet")
    sample = data("sample", "t.parquet", cwd=tmp_path)
    assert sample.stdout == "id,n\n9007199254740992,1\n,2\n7,\n"
    note = "'id' is float64, not int64: it has 1 missing value (NaN); its numbers of 2^53 or more may have been rounded"
    assert sample.stderr == f"note: {note}\n"
    found = json.loads(data("describe", "t.parquet", "--format", "json", cwd=tmp_path).stdout)
    assert [column["missing"] for column in found["columns"]] == [1, 1] and found["notes"] == [note]


def test_what_is_left_out_is_said_as_a_plan_says_it(tmp_path):
    """Beside the rows of a sample, which another program may read."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"id": [1, 2], "l": [[1, 2]] * 2, "s": ["a", "b"]}), tmp_path / "t.parquet")
    plan = data("plan", "t.parquet", cwd=tmp_path).stdout
    sample = data("sample", "t.parquet", cwd=tmp_path)
    assert sample.stdout == "id\n1\n2\n"
    notes = sample.stderr.splitlines()
    assert len(notes) == 2 and "are left out: l.list.element" in notes[0] and notes[1] == "note: 1 column of text is left out: s"
    assert plan.splitlines()[-2:] == notes
    described = data("describe", "t.parquet", cwd=tmp_path).stdout
    assert notes[0] in described and "text, left out: s" in described
    found = json.loads(data("describe", "t.parquet", "--format", "json", cwd=tmp_path).stdout)
    assert [f"note: {note}" for note in found["notes"]] == notes


@pytest.fixture
def pictures(tmp_path):
    """Six of 1024×1024: 18 MiB, where the usual batch of them would take 768."""
    from PIL import Image

    (tmp_path / "pics").mkdir()
    for shade in range(6):
        Image.new("RGB", (1024, 1024), (shade, 0, 0)).save(tmp_path / "pics" / f"{shade}.png")
    return tmp_path


def test_a_few_large_rows_need_no_more_than_they_are(pictures):
    """Batches have no more rows than there are; those of `describe` and `sample`, which nobody chooses, fit the budget."""
    plan = data("plan", "pics", "--memory", "128MiB", cwd=pictures).stdout
    assert plan.startswith("It fits: ") and "1 batch of 6 rows" in plan
    for memory in ("128MiB", "40MiB"):
        described = data("describe", "pics", "--memory", memory, cwd=pictures).stdout
        assert described.splitlines()[3].split() == ["image", "uint8", "0", "0", "0.8333", "5", "1.5366"]
    rows = data("sample", "pics", "-n", 1, "--memory", "40MiB", cwd=pictures).stdout.splitlines()
    assert len(rows) == 2 and len(rows[1].split(",")) == 3 * 1024 * 1024
    small = data("plan", "pics", "--memory", "40MiB", cwd=pictures, code=1)
    assert "for two batches of 6 rows; give at least that much memory (--memory), or take smaller batches (--batch)" in small.stderr
    assert data("plan", "pics", "--memory", "40MiB", "--batch", 1, cwd=pictures).stdout.startswith("It fits: ")
    assert "--batch" not in data("describe", "pics", "--memory", "1MiB", cwd=pictures, code=1).stderr


def test_bench_counts(table):
    """Rows, CPU time and the ledger's peak inside the budget."""
    words = ["t.csv", "--columns", "a,y", "--epochs", 3, "--memory", "8MiB", "--shuffle", "block", "--format", "json"]
    found = json.loads(data("bench", *words, cwd=table).stdout)
    assert found["rows"] == 3000 and 0 < found["ledger_peak_bytes"] <= 8 * MIB and found["cpu_seconds"] > 0


SCRIPT = """
import numpy as np

def load():
    first = np.ones(8_000_000)
    return first, first.astype("float32")

kept, x = load()
print(x.sum() + kept.sum())
raise SystemExit(3)
"""


def test_check_names_the_lines_that_hold_memory(tmp_path):
    """The array of 61 MiB and its copy of half that; the exit code is the script's own."""
    (tmp_path / "train.py").write_text(SCRIPT)
    run = data("check", "--", sys.executable, "train.py", cwd=tmp_path, code=3)
    assert run.stdout == "16000000.0\n"
    assert "61.0 MiB" in run.stderr and "train.py:5" in run.stderr and "train.py:6  copies or converts" in run.stderr, run.stderr
    run = data("check", "--format", "json", "--", sys.executable, "train.py", cwd=tmp_path, code=3)
    [process] = json.loads(run.stdout.split("\n", 1)[1])["processes"]
    traced = {holder["place"]: holder["bytes"] for holder in process["holders"] if "beside" not in holder["stage"]}
    assert 64_000_000 <= traced["train.py:5"] < 64_100_000 and 32_000_000 <= traced["train.py:6"] < 32_100_000, traced
    assert process["peak_bytes"] >= 96_000_000


def test_looks_at_the_same_time_do_not_meet(tmp_path):
    """A job that ends while it is looked at: the thread and the main thread write the same file."""
    from brimful.holding import Imports, Looking

    looking, failed = Looking(tmp_path, Imports()), []

    def look(sizes):
        try:
            for held in sizes:
                looking._look(held)
        except OSError as error:
            failed.append(error)

    start = looking._looked_at + 1
    threads = [threading.Thread(target=look, args=(range(start + first, start + 400, 2),)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    [file] = tmp_path.iterdir()
    assert json.loads(file.read_text())["peak_bytes"] == start + 399


FORKS = """
import os, sys
import numpy as np

kept = np.ones(8_000_000)
if os.fork() == 0:
    more = np.ones(4_000_000)
    sys.exit(0)
os.wait()
"""


def test_a_forked_child_looks_at_itself_when_it_ends(tmp_path):
    (tmp_path / "train.py").write_text(FORKS)
    run = data("check", "--format", "json", "--", sys.executable, "train.py", cwd=tmp_path)
    processes = sorted(json.loads(run.stdout)["processes"], key=lambda process: process["peak_bytes"])
    assert len({process["pid"] for process in processes}) == len(processes) == 2, run.stdout
    places = [holder["place"] for process in processes for holder in process["holders"] if "beside" not in holder["stage"]]
    assert sorted(places) == ["train.py:5", "train.py:7"], run.stdout


def test_reading_in_pieces_is_not_called_reading_whole():
    from brimful.holding import stage_of

    assert stage_of('rows = pd.read_csv("t.csv")') == "reads a file whole"
    assert stage_of('for chunk in pd.read_csv("t.csv", chunksize=10_000):') == "reads in pieces"
    assert stage_of('x = np.load("x.npy", mmap_mode="r")') == "reads in pieces"


def test_check_without_python_says_so(tmp_path):
    """Nothing can be looked into."""
    run = data("check", "--", "sh", "-c", "exit 4", cwd=tmp_path, code=4)
    assert "no Python of the job could be looked into" in run.stderr
