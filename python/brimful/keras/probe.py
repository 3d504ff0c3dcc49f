"""Whether a loss, and the model under it, can be taken in parts: tried out on a few samples.

In: a model and a batch. Out: how each term of its loss adds up over parts, or what couples the samples. The few samples are taken once as
a whole and once in unequal parts, without training: what does not add up then never will. Not seen: what couples samples in training
only (BatchNorm: `findings` knows it).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras import ops, tree
from keras.src.backend import random
from keras.src.trainers.trainer import Trainer

from brimful.fitting import DoesNotFit, failure, sizing
from brimful.fitting.failure import first_line, is_out_of_memory

from . import batches
from .findings import DRAWS, Finding
from .terms import COUNTED, COUPLED, MEAN, SCALAR, SUM, Rule, listening, part_counts

#: Samples that are tried, and where they are divided: unequal, or a mean of means would pass; one of them alone, which differs most
#: from the others (the root of a mean over two and five is next to a mean of roots).
SAMPLES, BOUNDS = 7, (0, 1, 3)
#: Where so many do not fit; of two, one and one are the parts there are.
FEWER = (3, 2)
#: Rounding of sums over a few samples, relative; types of 16 bits have three digits.
TOLERANCE = {"float64": 1e-8, "float32": 1e-5}
COARSE = 3e-2
#: A number that is zero however the samples are taken.
ZERO = "zero"
#: Where a few samples said otherwise.
DIVIDES = (
    "the loss is another one when its samples are taken in other parts: it divides by something that is not their number, such as a mask. "
    "Let the loss give a number for each sample (Dice and Tversky do with axis=), and give the mask as sample_weight with "
    "reduction='mean_with_sample_weight'"
)
COUPLES = "the model's results for a sample depend on the other samples of the batch: it cannot be taken in parts"
NO_ROWS = "an output of the model is not made of rows for each sample (it is one number, or a table): its batch cannot be taken in parts"


#: Where random numbers come from in Keras, for each backend.
DRAWN = ("normal", "truncated_normal", "uniform")
NOISY = "the model draws random numbers of the framework's own without training, too: whether its batch can be taken in parts could not be tried out"


@contextlib.contextmanager
def _drawing_nothing() -> Iterator[list[str]]:
    """Keras's random numbers are all alike inside: what differs then differs for another reason. Gives the functions that were asked for some.

    Those from a number in place of a generator stay: they are the same each time, and another row of a part has others.
    """
    original, asked = {name: getattr(random, name) for name in DRAWN}, []

    def instead(name: str) -> Any:
        def drawn(shape: Any, mean=0.0, stddev=1.0, minval=0.0, maxval=1.0, dtype=None, seed=None) -> Any:  # noqa: ANN001 -- Keras's own
            if isinstance(seed, int):
                limits = {"minval": minval, "maxval": maxval} if name == "uniform" else {"mean": mean, "stddev": stddev}
                return original[name](shape, **limits, dtype=dtype, seed=seed)
            asked.append(name)
            dtype = dtype or keras.backend.floatx()
            return ops.zeros(shape, dtype) + ops.cast((minval + maxval) / 2 if name == "uniform" else mean + stddev / 2, dtype)

        return drawn

    for name in DRAWN:
        setattr(random, name, instead(name))
    try:
        yield asked
    finally:
        for name, function in original.items():
            setattr(random, name, function)


def _numbers(value: Any) -> Any:
    # NumPy has no bfloat16; the other types keep the digits they have.
    value = ops.convert_to_tensor(value)
    wide = keras.backend.standardize_dtype(value.dtype) == "float64"
    return ops.convert_to_numpy(value if wide else ops.cast(value, "float32")).astype("float64")


def _close(left: float, right: float, tolerance: float, scale: float) -> bool:
    return abs(left - right) <= tolerance * max(abs(left), abs(right), scale)


class _Told:
    """What the model says about the same few samples as a whole and in parts, without training.

    All of it is asked at once: JAX compiles one program for it. The parts' losses are also weighted, as they are if every number is a
    mean over samples: where it is so, which it mostly is, nothing has to be asked again.
    """

    def __init__(self, backend: Any, model: Any, few: tuple, pieces: list[tuple], shares: list[float], rule: Rule) -> None:
        self.backend, self.model, self.pieces, self.shares = backend, model, pieces, shares

        def ask(few: tuple, pieces: list[tuple]) -> tuple:
            with _drawing_nothing() as drawn:
                whole = self._forward(few)
                counts = part_counts(model, *whole) if rule.whole is None else []
                before = len(drawn)
                terms, seen = self._terms(whole, rule)
                self.loss_drew = len(drawn) > before
                self.kinds, self.may_count, self.own = seen.kinds, seen.may_count, seen.own
                parts, weighted = [], []
                for piece, share in zip(pieces, shares):
                    part = self._forward(piece)
                    parts.append(self._terms(part, rule)[0])
                    if rule.whole is None and COUPLED not in seen.kinds:
                        weighted.append(self._loss(part, rule, share, counts)[0])
            self.drew = bool(drawn)
            return counts, [terms, *parts], weighted

        self.counts, (whole, *parts), weighted = backend.asked(ask, few, pieces)
        self.y_pred, *self.whole = _host(whole)
        self.y_preds, self.losses, self.values, self.layers = zip(*map(_host, parts))
        self.weighted = sum(float(_numbers(loss)) for loss in weighted)

    def weighted_by(self, rule: Rule) -> float:
        """The sum of the parts' losses, weighted as the rule says."""

        def ask(pieces: list[tuple], counts: list) -> list:
            with _drawing_nothing():
                return [self._loss(self._forward(piece), rule, share, counts)[0] for piece, share in zip(pieces, self.shares)]

        return sum(float(_numbers(loss)) for loss in self.backend.asked(ask, self.pieces, self.counts))

    def _forward(self, data: tuple) -> tuple:
        x, y, weights = data
        return x, y, self.backend.forward(x, training=False), weights

    def _loss(self, passed: tuple, rule: Rule, share: float | None = None, counts: list | None = None) -> tuple:
        x, y, y_pred, weights = passed
        with listening(self.model, rule, share, counts) as seen:
            return ops.sum(self.model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weights, training=False)), seen

    def _terms(self, passed: tuple, rule: Rule) -> tuple:
        loss, seen = self._loss(passed, rule)
        return (passed[2], loss, [ops.sum(value) for value in seen.values], seen.layers), seen


def _host(terms: tuple) -> tuple:
    """Predictions as they are, and numbers as Python's: the loss, its terms, the layers' own."""
    y_pred, loss, values, layers = terms
    return y_pred, float(_numbers(loss)), [float(_numbers(value)) for value in values], [float(_numbers(value)) for value in layers]


def _behaves(whole: float, pieces: Sequence[float], shares: list[float], tolerance: float) -> str:
    """How one number adds up. Nothing but zeros says nothing."""
    if not any(pieces) and whole == 0:
        return ZERO
    scale = max(map(abs, pieces)) * 1e-3
    if _close(whole, sum(piece * share for piece, share in zip(pieces, shares)), tolerance, scale):
        return MEAN
    return SUM if _close(whole, sum(pieces), tolerance, scale) else COUPLED


def found_out(backend: Any, model: Any, data: tuple) -> tuple[Rule, Finding | None]:
    """What `try_out` says, with fewer samples where memory is short. Nothing of the model changes."""
    kept = backend.keep()
    for samples in (SAMPLES, *FEWER):
        try:
            return try_out(backend, model, data, samples)
        except Exception as error:
            if not failure.is_out_of_memory(error):
                raise
            said = failure.forget(error)
        finally:
            backend.put_back(kept)
        backend.release()
    raise DoesNotFit(f"not even {FEWER[-1]} samples fit, without training ({said})")


def same_results(backend: Any, model: Any, data: tuple) -> Finding | None:
    """Whether a sample's result is the same whatever samples are beside it, without training."""
    rows = min(batches.rows(data[0]), SAMPLES)
    few = batches.spread(data, rows)

    def ask(pieces: list[tuple]) -> list:
        with _drawing_nothing():
            return [backend.forward(data[0], training=False) for data in pieces]

    try:
        whole, *parts = backend.asked(ask, [few, batches.part(few, 0, 1), batches.part(few, 1, rows)])
    except Exception as error:
        if is_out_of_memory(error):
            # Not even a few samples fit at once: one at a time may.
            failure.forget(error)
            return None
        text = f"the model does not take another number of samples ({first_line(error)}): its batch cannot be taken in parts"
        return Finding("fixed_batch", text, splits=False)
    return _couples(backend, few, whole, parts, COARSE / 30)


def _tolerance(model: Any) -> float:
    policy = model.dtype_policy.compute_dtype if hasattr(model, "dtype_policy") else keras.backend.floatx()
    # Losses have a type of their own; and Keras multiplies matrices of float64 in float32, except on TensorFlow.
    return max(TOLERANCE.get(keras.backend.result_type(kind), COARSE) for kind in (policy, keras.backend.floatx()))


def holds(backend: Any, rule: Rule, data: tuple, y_pred: Any, size: int, counts: list, found: list[list], training: bool) -> bool:
    """Whether what a few samples said of the loss holds for this batch: with its samples in other parts, it is the same.

    y_pred: the predictions of the batch, with their masks. size: samples in the largest part. found: by part, what the losses contributed. What
    divides by a mask, or by anything but the number of samples, has another value then, if it is not the same in all parts.
    """
    rows = batches.rows(data)
    if not batches.can_choose((data, y_pred)) or any(int(leaf.shape[0]) % rows for leaf in tree.flatten(y_pred) if leaf is not None):
        return True
    # No two neighbours together; of one sample alone nothing can be seen.
    apart = -(-rows // size)
    order = [row for first in range(apart) for row in range(first, rows, apart)]
    again = []
    for begin, end in sizing.parts(rows, max(size, 2)):
        part = [batches.chosen(of, order[begin:end], rows) for of in (data, y_pred)]
        values = backend.doubted(*part, rule, training, (end - begin) / rows, counts)
        again.append([float(_numbers(value)) for value in values])
    tolerance = min(10 * _tolerance(backend.model), COARSE)
    for before, after in zip(zip(*found), zip(*again)):
        before = [float(_numbers(value)) for value in before]
        if not math.isfinite(sum(before)) and not math.isfinite(sum(after)):
            continue
        if not abs(sum(before) - sum(after)) <= tolerance * sum(map(abs, after)):
            return False
    return True


def try_out(backend: Any, model: Any, data: tuple, samples: int = SAMPLES) -> tuple[Rule, Finding | None]:
    """How this model's loss adds up over parts, and what forbids parts."""
    rows = min(batches.rows(data[0]), samples)
    few = batches.spread(data, rows)
    bounds = sorted({min(bound, rows) for bound in (*BOUNDS, rows)})
    pieces = [batches.part(few, begin, end) for begin, end in zip(bounds, bounds[1:])]
    shares = [(end - begin) / rows for begin, end in zip(bounds, bounds[1:])]
    tolerance = _tolerance(model)
    own_way = type(model).compute_loss is not Trainer.compute_loss
    raw = Rule(whole=MEAN) if own_way else Rule()
    try:
        told = _Told(backend, model, few, pieces, shares, raw)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        text = f"the model does not take another number of samples ({first_line(error)}): its batch cannot be taken in parts"
        return raw, Finding("fixed_batch", text, splits=False)
    couples = _couples(backend, few, told.y_pred, list(told.y_preds), tolerance)
    if couples is not None:
        return raw, couples
    drawn = Finding("random", f"the model {DRAWS}") if told.drew else None
    loss, values, layers = told.whole
    sample_bytes = -(-batches.bytes_of(told.y_pred) // rows)
    couples = Finding("loss_couples", "the loss couples the samples of a batch: the sum over parts is another loss", splits=False)
    if not math.isfinite(loss):
        return raw, Finding(
            "loss_unknown", f"the loss of the samples that were tried is {loss}: how it adds up over parts is not known", False
        )
    zero = Finding("loss_unknown", "a loss is zero for the samples that were tried: how it adds up over parts is not known", splits=False)
    # Keras puts those of the weights last, and they do not depend on the batch.
    regularised = sum(1 for weight in model.trainable_weights if weight.regularizer is not None)
    if own_way:
        doubted = len(layers) == regularised and not told.loss_drew
        rule = Rule(whole=_behaves(loss, told.losses, shares, tolerance), sample_bytes=sample_bytes, doubted=doubted)
        if rule.whole == ZERO:
            return rule, zero
        # What divides by a mask or by weights may add up for these few samples, and not for others.
        return rule, couples if rule.whole == COUPLED or {COUNTED, COUPLED} & {*told.kinds} else drawn
    # Validation may have weights where training has none.
    rule = Rule(counted=COUNTED in told.kinds or told.may_count, sample_bytes=sample_bytes)
    for index, kind in enumerate(told.kinds):
        if kind == SCALAR:
            rule.scalars[index] = _behaves(values[index], [part[index] for part in told.values], shares, tolerance)
    # A number for the batch says as little where it is Keras's own (Dice): the next batch may have other targets.
    rule.layer_count, rule.doubted = len(layers), (told.own or bool(rule.scalars)) and not told.loss_drew
    for index, value in enumerate(layers[: len(layers) - regularised]):
        rule.layers[index] = _behaves(value, [part[index] for part in told.layers], shares, tolerance)
    found = {*rule.scalars.values(), *rule.layers.values()}
    if COUPLED in {*found, *told.kinds}:
        return rule, couples
    if ZERO in found:
        return rule, zero
    # The proof of the whole: with these weights the parts give the loss of the few samples.
    total = told.weighted if found <= {MEAN} else told.weighted_by(rule)
    return rule, drawn if _close(loss, total, tolerance, 1e-6) else couples


def _couples(backend: Any, few: tuple, whole: Any, parts: list, tolerance: float) -> Finding | None:
    """What stands against parts in the results of a few samples, as a whole and in parts."""
    if not _made_of_rows(whole, parts):
        return Finding("no_rows", NO_ROWS, splits=False)
    return None if _same_rows(whole, parts, tolerance) else _why_not_the_same(backend, few, tolerance)


def _made_of_rows(whole: Any, parts: list) -> bool:
    """Whether the results of the parts are, one after the other, as many as those of the whole."""
    pieces = [[leaf.shape for leaf in tree.flatten(part)] for part in parts]
    for shape, *shapes in zip([leaf.shape for leaf in tree.flatten(whole)], *pieces):
        if len(shape) == 0 or sum(int(piece[0]) for piece in shapes) != int(shape[0]):
            return False
    return True


def _why_not_the_same(backend: Any, few: tuple, tolerance: float) -> Finding:
    """Results that are others the second time, too, say nothing about what samples do to each other."""

    def ask(few: tuple) -> list:
        with _drawing_nothing():
            return [backend.forward(few[0], training=False) for _ in range(2)]

    first, second = backend.asked(ask, few)
    if not _same_rows(first, [second], tolerance):
        return Finding("noisy", NOISY, splits=False)
    return Finding("model_couples", COUPLES, splits=False)


def _same_rows(whole: Any, parts: list, tolerance: float) -> bool:
    for index, leaf in enumerate(tree.flatten(whole)):
        expected = _numbers(leaf)
        pieces = [_numbers(tree.flatten(part)[index]) for part in parts]
        if any(piece.shape[1:] != expected.shape[1:] for piece in pieces):
            return False
        begin = 0
        for piece in pieces:
            difference = abs(piece - expected[begin : begin + len(piece)])
            if difference.size and difference.max() > 10 * tolerance * max(abs(expected).max(), 1e-6):
                return False
            begin += len(piece)
    return True
