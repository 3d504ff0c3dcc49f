"""The `brimful` command, and `python -m brimful`."""

import os
import signal
import sys

from brimful import _native


def main() -> int:
    """Runs the command with this process's arguments and returns its exit code."""
    # The command runs outside the interpreter, where Python's own handler would not be heard. What is ignored stays so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # PyTorch models are planned in a process of this same Python, unless the user names another.
    if sys.executable and not os.environ.get("BRIMFUL_PYTHON"):
        os.environ["BRIMFUL_PYTHON"] = sys.executable
    return _native.main(["brimful", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
