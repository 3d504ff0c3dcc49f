"""What training inside a budget needs and no framework has: sizes, failures, what was learnt, what is said.

In: numbers and errors of whichever framework runs. Out: how many samples to take at a time. `brimful.keras` and `brimful.torch` do
the training; nothing here imports a framework.
"""

from .failure import CannotSplit, DoesNotFit

__all__ = ["CannotSplit", "DoesNotFit"]
