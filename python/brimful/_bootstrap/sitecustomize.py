"""Python runs this at its start under `brimful fit`, `brimful run` and `brimful data check`, which put this folder in front of PYTHONPATH.

In: the environment. Out: `sys.path` without this folder, the user's own `sitecustomize` run as if this one were not there, then
the take-over (`BRIMFUL_FIT`), the agent (`BRIMFUL_RUN`) and the looking (`BRIMFUL_CHECK`) in place, each where it is asked for. Nothing here may stop the user's job,
whatever Python runs it: what goes wrong is one line on stderr.
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
        _give_up("BRIMFUL_FIT", "nothing is taken over", error)


def _follow():
    """Loads the agent alone: the package that it is of loads an extension, which takes longer and may not be for this Python."""
    try:
        _load("brimful.hooks", "hooks.py")
        _load("brimful.agent", os.path.join("agent", "__init__.py")).install()
    except Exception as error:
        _give_up("BRIMFUL_RUN", "training is not followed", error)


def _look():
    try:
        _load("brimful.holding", "holding.py").install(os.environ["BRIMFUL_CHECK"])
    except Exception as error:
        _give_up("BRIMFUL_CHECK", "memory is not looked at", error)


def _load(name, file):
    if name in sys.modules:
        return sys.modules[name]
    # `importlib.util` has these two as well, and takes ten milliseconds for what else it imports.
    from importlib._bootstrap import module_from_spec
    from importlib._bootstrap_external import spec_from_file_location

    file = os.path.join(os.path.dirname(_HERE), file)
    folders = [os.path.dirname(file)] if os.path.basename(file) == "__init__.py" else None
    spec = spec_from_file_location(name, file, submodule_search_locations=folders)
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _give_up(variable, what, error):
    # The processes that this one starts would say the same.
    os.environ.pop(variable, None)
    text = " ".join(str(error).split())
    try:
        sys.stderr.write("brimful: %s in %s: %s: %s\n" % (what, sys.executable, type(error).__name__, text))
    except Exception:
        pass  # A job may start Python without streams.


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
    if os.environ.get("BRIMFUL_RUN"):
        _follow()
    if os.environ.get("BRIMFUL_CHECK"):
        _look()
