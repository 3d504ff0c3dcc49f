"""Mean and deviation of columns, batch by batch.

In: batches by rows. Out: mean and standard deviation over all rows, in double precision; NaN is not counted, or counts as NumPy counts it. Batches are joined by their own
means (Chan et al.), so that large means take no digits from small deviations.
"""

from __future__ import annotations

from typing import Any

import numpy


class Moments:
    """The count, the mean and the sum of squares around it, of each column."""

    def __init__(self, skip_unknown: bool = True) -> None:
        self.skip_unknown = skip_unknown
        self.count: Any = 0
        self.average: Any = 0.0
        self.squares: Any = 0.0

    def add(self, rows: Any) -> None:
        """More rows."""
        if not len(rows):
            return
        values = rows.astype("float64")
        # One NaN makes the sum NaN; infinities may, too, and are looked at then.
        whole = not self.skip_unknown or not numpy.isnan(values.sum())
        known = None if whole else ~numpy.isnan(values)
        count = numpy.asarray(len(rows)) if whole else known.sum(axis=0)
        if not whole:
            values[~known] = 0.0
        average = values.sum(axis=0) / numpy.maximum(count, 1)
        values -= average
        if not whole:
            values[~known] = 0.0
        numpy.square(values, out=values)
        together = self.count + count
        apart = average - self.average
        share = count / numpy.maximum(together, 1)
        self.squares = self.squares + values.sum(axis=0) + apart * apart * self.count * share
        self.average = self.average + apart * share
        self.count = together

    def mean(self) -> Any:
        """NaN where nothing is known."""
        return numpy.where(self.count > 0, self.average, numpy.nan)

    def var(self, ddof: float = 0) -> Any:
        """Of all rows, as NumPy's `var`; NaN where there are no more rows than `ddof`."""
        degrees = self.count - ddof
        return numpy.where(degrees > 0, self.squares / numpy.where(degrees > 0, degrees, 1), numpy.nan)

    def std(self, ddof: float = 0) -> Any:
        """Of all rows, as NumPy's `std`."""
        return numpy.sqrt(self.var(ddof))
