"""Pixels of images as rows, whatever their layout: the fit, metrics and predictions of a matrix."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from calibrant import (
    FlattenedIsotonic,
    NormalizationAwareIsotonic,
    TemperatureScaling,
    VectorScaling,
    metrics,
)
from calibrant.datasets import simulated_scores
from calibrant.scale import StackedRows, _stacked

SCORES, Y = simulated_scores(6 * 7 * 5)
IMAGES, LABELS = SCORES.reshape(6, 7, 5, 3), Y.reshape(6, 7, 5)
METHODS = [TemperatureScaling, FlattenedIsotonic, NormalizationAwareIsotonic, VectorScaling]


@pytest.fixture(params=[1, 100, 1 << 20], ids="{} cells at once".format)
def blocks(request, monkeypatch):
    """Blocks of a line, of some lines and of all images."""
    monkeypatch.setattr(_stacked, "BLOCK_CELLS", request.param)


@pytest.mark.parametrize(
    ("method", "axis"), [*((TemperatureScaling, i) for i in range(4)), *((m, -3) for m in METHODS)]
)
@pytest.mark.usefixtures("blocks")
def test_every_layout_is_the_matrix(method, axis):
    """To the bit: which rows are in a block says nothing."""
    images = np.moveaxis(IMAGES, -1, axis)
    stacked, plain = StackedRows(images, axis=axis), method().fit(SCORES, Y)
    found = method().fit(stacked, LABELS)
    calibrated = found.predict_proba(stacked)
    assert calibrated.shape == images.shape
    assert_array_equal(
        np.moveaxis(calibrated, axis, -1).reshape(-1, 3), plain.predict_proba(SCORES)
    )
    assert_array_equal(found.predict(stacked), plain.predict(SCORES).reshape(LABELS.shape))


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("kind", ["positive", "decision"])
@pytest.mark.usefixtures("blocks")
def test_one_column_becomes_two_on_the_axis_of_classes(kind, axis):
    p, y = SCORES[:, 0], (Y == 0).astype(int)
    given = p if kind == "positive" else np.log(p / (1 - p))
    stacked = StackedRows(np.moveaxis(given.reshape(6, 7, 5, 1), -1, axis), axis=axis)
    plain = TemperatureScaling(scores=kind).fit(given, y)
    found = TemperatureScaling(scores=kind).fit(stacked, y.reshape(6, 7, 5))
    calibrated = found.predict_proba(stacked)
    assert calibrated.shape == np.moveaxis(np.empty((6, 7, 5, 2)), -1, axis).shape
    assert_array_equal(np.moveaxis(calibrated, axis, -1).reshape(-1, 2), plain.predict_proba(given))
    assert_array_equal(found.predict(stacked).ravel(), plain.predict(given))
    out = np.empty(calibrated.shape, np.float32)
    assert stacked.apply(found, out=out) is out
    with pytest.raises(ValueError, match="out has shape"):
        stacked.apply(found, out=np.empty(stacked.scores.shape))


@pytest.mark.parametrize("method", [TemperatureScaling, NormalizationAwareIsotonic])
@pytest.mark.usefixtures("blocks")
def test_ignored_pixels_are_not_there(method):
    """Not even if their scores are none."""
    labels, images = LABELS.copy(), IMAGES.copy()
    ignored = np.random.default_rng(0).random(labels.shape) < 0.3
    ignored[2] = True
    labels[ignored], images[ignored] = 255, np.nan
    weight = np.random.default_rng(1).uniform(0.5, 2.0, labels.shape)
    used = ~ignored.ravel()
    found = method().fit(StackedRows(images, axis=-1, ignore_index=255), labels, weight)
    plain = method().fit(SCORES[used], Y[used], weight.ravel()[used])
    assert_allclose(found.predict_proba(SCORES), plain.predict_proba(SCORES), atol=1e-12)
    rows = StackedRows(np.moveaxis(images, -1, 1), axis=1, ignore_index=255)
    told = metrics.evaluate(labels, rows, sample_weight=weight, n_resamples=0)
    wanted = metrics.evaluate(
        Y[used], SCORES[used], sample_weight=weight.ravel()[used], n_resamples=0
    )
    assert told.n_rows == wanted.n_rows
    assert told.confidence_ece.value == pytest.approx(wanted.confidence_ece.value, abs=1e-9)
    nll = metrics.negative_log_likelihood(labels, rows)
    assert nll == pytest.approx(metrics.negative_log_likelihood(Y[used], SCORES[used]), abs=1e-12)


@pytest.mark.usefixtures("blocks")
def test_memory_maps_and_results_of_the_same_layout(tmp_path):
    images = np.lib.format.open_memmap(
        tmp_path / "scores.npy", "w+", dtype=np.float32, shape=(6, 3, 7, 5)
    )
    images[:] = np.moveaxis(IMAGES, -1, 1)
    rows = StackedRows(images, axis=1)
    found = TemperatureScaling().fit(rows, LABELS)
    out = np.lib.format.open_memmap(
        tmp_path / "out.npy", "w+", dtype=np.float32, shape=images.shape
    )
    assert rows.apply(found, out=out) is out
    assert_array_equal(out, found.predict_proba(rows))
    assert found.predict_proba(rows).dtype == np.float32
    labels = np.empty(LABELS.shape, dtype=np.int8)
    assert_array_equal(rows.apply(found, "predict", out=labels), found.predict(rows))


class Tensor:
    """What is used of one of torch's."""

    __module__ = "torch"

    def __init__(self, values, calls=()):
        self.values, self.shape, self.itemsize, self.calls = values, values.shape, 4, calls

    def __getitem__(self, place):
        return Tensor(self.values[place])

    def detach(self):
        return Tensor(self.values, ("detach",))

    def cpu(self):
        return Tensor(self.values, (*self.calls, "cpu"))

    def is_floating_point(self):
        return self.values.dtype.kind == "f"

    def __array__(self, dtype=None, copy=None):
        assert self.calls == ("detach", "cpu")  # torch would refuse it
        return self.values


def test_tensors_of_devices_with_gradients():
    rows = StackedRows(Tensor(np.moveaxis(IMAGES, -1, 1)), axis=1)
    found = TemperatureScaling().fit(rows, Tensor(LABELS))
    assert found.temperature_ == TemperatureScaling().fit(SCORES, Y).temperature_
    assert_array_equal(found.predict_proba(rows).shape, (6, 3, 7, 5))


def test_logits_of_tensors():
    torch = pytest.importorskip("torch")
    logits = np.moveaxis(np.log(IMAGES), -1, 1)
    found = TemperatureScaling(scores="logits").fit(
        StackedRows(torch.tensor(logits), axis=1), torch.tensor(LABELS)
    )
    plain = TemperatureScaling(scores="logits").fit(np.log(SCORES), Y)
    assert found.temperature_ == plain.temperature_
    half = StackedRows(torch.tensor(logits).bfloat16(), axis=1)
    near = found.predict_proba(half)
    assert_allclose(near, found.predict_proba(StackedRows(logits, axis=1)), atol=0.05)


def test_one_volume_and_sequences():
    """Three dimensions, (C, H, W) or (N, T, C), are enough; five are not too many."""
    for shape in ((30, 7, 3), (2, 3, 5, 7, 3)):
        rows = StackedRows(SCORES.reshape(shape), axis=-1)
        found = FlattenedIsotonic().fit(rows, Y.reshape(shape[:-1]))
        assert_array_equal(
            found.predict_proba(SCORES), FlattenedIsotonic().fit(SCORES, Y).predict_proba(SCORES)
        )


def bad(**places):
    images = IMAGES.copy()
    images[1, 2, 3, 0] = np.nan
    return StackedRows(images, axis=-1, **places)


FITTED = TemperatureScaling().fit(SCORES, Y)
ROWS = StackedRows(IMAGES, axis=-1)
BAD = {
    "a matrix": (lambda: StackedRows(SCORES, axis=1), "pass a matrix without StackedRows"),
    "a list": (lambda: StackedRows([[[0.5, 0.5]]], axis=1), r"list of shape \(\).*np.asarray"),
    "no such axis": (lambda: StackedRows(IMAGES, axis=4), r"axis=4 must be .* in \[-4, 3\]"),
    "another ignored": (
        lambda: StackedRows(IMAGES, axis=1, ignore_index="no"),
        "ignore_index='no'",
    ),
    "labels of another axis": (
        lambda: TemperatureScaling().fit(StackedRows(IMAGES, axis=1), LABELS),
        r"y has shape \(6, 7, 5\), but scores is StackedRows.*axis 1.*\(6, 5, 3\)",
    ),
    "no labels": (lambda: TemperatureScaling().fit(ROWS, None), r"y has shape \(\)"),
    "weights of rows": (lambda: TemperatureScaling().fit(ROWS, LABELS, np.ones(210)), r"\(210,\)"),
    "a score that is none": (
        lambda: TemperatureScaling().fit(bad(), LABELS),
        r"chunk 0, row 48, row 48 of all: scores\[48, 0\] is nan",
    ),
    "one to predict": (lambda: FITTED.predict_proba(bad()), r"chunk 0.*scores\[48, 0\] is nan"),
    "only ignored": (
        lambda: TemperatureScaling().fit(
            StackedRows(IMAGES, axis=-1, ignore_index=0), np.zeros_like(LABELS)
        ),
        "pass at least one",
    ),
    "out of another shape": (lambda: ROWS.apply(FITTED, out=np.empty(3)), r"out has shape \(3,\)"),
    "out of whole numbers": (lambda: ROWS.apply(FITTED, out=np.empty((6, 7, 5, 3), int)), "float"),
    "another method": (lambda: ROWS.apply(FITTED, "fit"), "method='fit' is not known"),
    "not fitted": (lambda: ROWS.apply(TemperatureScaling()), "not fitted yet"),
    "other classes": (
        lambda: FITTED.predict_proba(StackedRows(IMAGES[..., :2], axis=-1)),
        "expecting 3",
    ),
}


@pytest.mark.parametrize(("call", "match"), BAD.values(), ids=BAD)
def test_bad_stacks_are_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()
