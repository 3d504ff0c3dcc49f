"""Runs cells in a real kernel, as a notebook would, and gives what each of them showed."""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient

#: A cell that takes longer hangs.
PATIENCE_S = 300


@dataclass
class Outputs:
    """What one cell showed."""

    #: The name of the error, or None.
    error: str | None = None
    #: What came after the error, or all of it: HTML and text of displays, in order.
    html: list = field(default_factory=list)
    text: list = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""

    @property
    def box(self):
        """The last box."""
        return self.html[-1]


def run_cells(cells, environment=None):
    """Executes cells by name in one kernel; a cell that fails does not keep the next ones from running."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells.values()])
    with tempfile.TemporaryDirectory() as folder:
        # Nothing of the user's is read or written, and no port is used.
        settings = {"IPYTHONDIR": folder, "BRIMFUL_CACHE": folder, "JUPYTER_RUNTIME_DIR": folder, "PYTHONWARNINGS": "ignore"}
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(Path(folder) / "kernel"))
        client = NotebookClient(notebook, km=kernel, allow_errors=True, timeout=PATIENCE_S)
        client.execute(env={**(environment or os.environ), **settings})
    return {name: _read(cell.outputs) for name, cell in zip(cells, notebook.cells, strict=True)}


def _read(outputs):
    seen = Outputs()
    for output in outputs:
        if output.output_type == "error":
            seen.error = output.ename
            # What stands above the error is not about it.
            seen.html, seen.text = [], []
        elif output.output_type == "stream":
            setattr(seen, output.name, getattr(seen, output.name) + output.text)
        else:
            seen.html += [output.data["text/html"]] if "text/html" in output.data else []
            seen.text.append(output.data["text/plain"])
    return seen
