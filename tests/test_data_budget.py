"""The budget of `brimful.data` holds: every source in every shuffle, in a process that the system would kill or refuse beyond it.

Small files, a few epochs; `tools/prove_data.py` does the same with larger ones, more budgets and ten epochs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BINARY
from data_sources import FORMATS, MAKERS, SHUFFLES, formats_read, make
from memory_limit import group, kills

JOB = Path(__file__).parent / "data_budget_job.py"
MIB = 1 << 20
#: 120 MB in memory: more than one window of either budget.
ROWS = 60_000
PICTURES = 10_000
MOST = 1.05


def run(made, memory, epochs, shuffles=SHUFFLES):
    """What the job says of each shuffle."""
    limit = int(MOST * memory)
    given = {"paths": [str(path) for path in made.paths], "settings": made.settings, "rows": made.rows, "memory": memory}
    given |= {"shuffles": shuffles, "epochs": epochs, "limit": limit}
    with group(limit) as folder:
        given["group"] = None if folder is None else str(folder)
        command = [sys.executable, str(JOB), json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        assert folder is None or kills(folder) == 0, done.stderr
    assert done.returncode == 0, f"{made.name}, {memory // MIB} MiB: {done.returncode}\n{done.stderr[-2000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def there():
    return formats_read()


@pytest.mark.parametrize("kind", MAKERS)
def test_no_source_exceeds_its_budget(tmp_path, there, kind):
    if FORMATS.get(kind, kind) not in there:
        pytest.skip(f"{kind} is not read by this build")
    made = make(kind, tmp_path, PICTURES if kind == "images" else ROWS)
    for memory in (64 * MIB, 128 * MIB):
        for found in run(made, memory, epochs=2):
            said = f"{made.name}, {found['shuffle']}, {memory // MIB} MiB: {found}"
            assert "refused" not in found, said
            assert found["peak_bytes"] <= MOST * memory, said
            assert found["ledger_bytes"] <= memory, said
            assert found["threads_left"] == 1, said


def test_a_budget_below_the_floor_is_refused_before_anything_is_read(tmp_path):
    made = make("csv", tmp_path, 1000)
    for found in run(made, 256 << 10, epochs=1):
        assert "that this needs at least" in found["refused"] and found["floor_bytes"] > 256 << 10, found
        assert found["peak_bytes"] - found["mapped_bytes"] < 4 * MIB, found


@pytest.mark.parametrize("memory", [8 * MIB, 32 * MIB])
@pytest.mark.parametrize(("kind", "order"), [("csv", "block"), ("npy", "global"), ("parquet", "none")])
def test_convert_holds_its_writer_inside_the_budget_too(tmp_path, kind, order, memory):
    made = make(kind, tmp_path, ROWS // 3)
    # What the command itself takes besides, before it has a budget.
    with group(int(MOST * memory) + 4 * MIB) as folder:
        if folder is None:
            pytest.skip("no cgroup can be made here")
        for output in ("out.parquet", "out.npy"):
            command = [BINARY, "data", "convert", *made.paths, "-o", tmp_path / output, "--memory", memory, "--shuffle", order, "--quiet"]
            enters = ["sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh", *map(str, command)]
            done = subprocess.run(enters, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0 and kills(folder) == 0, (done.returncode, done.stderr)
            assert f"{made.rows} rows" in done.stdout
