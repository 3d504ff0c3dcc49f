"""Python runs this at its start under `brimful fit`, which puts this folder in front of PYTHONPATH.

In: the environment. Out: `sys.path` without this folder, the user's own `sitecustomize` run as if this one were not there, and
the take-over in place. Nothing here may stop the user's job, whatever Python runs it: what goes wrong is one line on stderr.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _take_over():
    try:
        import json

        from brimful import takeover

        takeover.install(**json.loads(os.environ["BRIMFUL_FIT"]))
    except Exception as error:
        # The processes that this one starts would say the same.
        os.environ.pop("BRIMFUL_FIT", None)
        text = " ".join(str(error).split())
        sys.stderr.write("brimful: nothing is taken over in %s: %s: %s\n" % (sys.executable, type(error).__name__, text))


def _run_the_users():
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        # What it raises is for Python to report, as it would be without this file.
        spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
try:
    _run_the_users()
finally:
    if os.environ.get("BRIMFUL_FIT"):
        _take_over()
