"""One failure in the forms that logs come in: formats.py rich|logging|repr|json|notebook|exitcode."""

import json
import logging
import os
import sys
import traceback

import numpy as np

where = sys.argv[1]


def load_features(users=200000):
    return np.zeros((users, users), "float32")


if where == "rich":
    from rich.console import Console
    from rich.traceback import install

    install(console=Console(stderr=True, force_terminal=True, width=100), show_locals=True)
    print(load_features().shape)
elif where == "logging":
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.INFO)
    log = logging.getLogger("features")
    log.info("loading users=200000")
    try:
        load_features()
    except MemoryError:
        log.exception("loading the features failed")
        sys.exit(1)
elif where == "repr":
    try:
        load_features()
    except MemoryError as error:
        print({"status": "FAILED", "error": repr(error), "traceback": traceback.format_exc()})
elif where == "json":

    class Json(logging.Formatter):
        def format(self, record):
            line = {"ts": self.formatTime(record), "level": record.levelname.lower(), "logger": record.name, "msg": record.getMessage()}
            if record.exc_info:
                line["exc"] = self.formatException(record.exc_info)
            return json.dumps(line)

    handler = logging.StreamHandler()
    handler.setFormatter(Json())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    logging.info("loading users=200000")
    try:
        load_features()
    except MemoryError:
        logging.exception("unhandled exception in job")
elif where == "notebook":
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    cells = [
        "import numpy as np\nimport torch\nprint('torch', torch.__version__)",
        "users = 200000\nsimilarity = np.zeros((users, users), 'float32')\nsimilarity.shape",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    try:
        NotebookClient(notebook, timeout=120).execute()
    except CellExecutionError:
        if sys.argv[2] == "ipynb":
            print(nbformat.writes(notebook))
        else:
            raise
elif where == "dead_kernel":
    import nbformat
    from nbclient import NotebookClient

    code = "kept = []\nwhile True:\n    kept.append(bytearray(b'x' * (16 << 20)))"
    NotebookClient(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]), timeout=120).execute()
elif where == "pytest":
    os.execvp(sys.executable, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=yes", "pytest_case.py"])
