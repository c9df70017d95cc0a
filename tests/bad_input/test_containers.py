"""Memory layouts and containers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from bad_input.holders import COLUMNS, HOLDERS, DeviceTensor, HalfTensor, pa, read_only
from bad_input.promises import (
    AnyCalibrator,
    bits,
    each_action,
    each_kind,
    each_reader,
    fitted,
    fresh,
    good,
    new_names,
    refused,
    same_fit,
    use,
)
from calibrant import errors, simplex

needs_arrow = pytest.mark.skipif(pa is None, reason="pyarrow is not installed")


PAIRS = [(name, "probabilities") for name in HOLDERS]
PAIRS += [(name, "logits") for name in ("Fortran order", "strided columns", "read-only")]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(("holder", "kind"), PAIRS)
@each_reader
def test_scores_in_every_layout_and_container_give_the_same_bits(calibrator, holder, kind):
    """At fit and predict."""
    scores, y = good(kind)
    plain = fitted(calibrator, kind)
    hold = HOLDERS[holder]
    estimator = calibrator(scores=kind).fit(hold(scores), y)
    new = fresh(kind)
    out = estimator.predict_proba(hold(new))
    assert type(out) is np.ndarray
    assert np.array_equal(bits(out), bits(plain.predict_proba(new)))
    assert same_fit(estimator, plain, new)


@pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning")  # of one row
@each_reader
@each_kind
def test_a_broadcast_row_is_as_its_copies(calibrator, kind):
    """With strides of zero."""
    row, y = good(kind)[0][:1], good()[1]
    view = np.broadcast_to(row, (200, 3))
    estimator = calibrator(scores=kind).fit(view, y)
    assert same_fit(estimator, calibrator(scores=kind).fit(view.copy(), y), fresh(kind))
    ours, theirs = fitted(calibrator, kind).predict_proba(view), view.copy()
    theirs = fitted(calibrator, kind).predict_proba(theirs)
    assert np.array_equal(bits(ours), bits(theirs))


@each_reader
@pytest.mark.parametrize("mode", ["r", "c"])
def test_files_mapped_into_memory_are_read(calibrator, mode, tmp_path):
    """Scores, labels and weights."""
    scores, y = good()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    mapped = []
    for name, array in (("scores", scores), ("y", y), ("weight", weight)):
        np.save(tmp_path / name, array)
        mapped.append(np.load(tmp_path / f"{name}.npy", mmap_mode=mode))
    estimator = calibrator().fit(*mapped)
    assert same_fit(estimator, calibrator().fit(scores, y, weight), fresh())
    out = fitted(calibrator).predict_proba(mapped[0])
    assert type(out) is np.ndarray
    assert np.array_equal(bits(out), bits(fitted(calibrator).predict_proba(scores)))


@each_kind
def test_double_precision_rows_on_the_simplex_are_not_copied(kind, tmp_path):
    np.save(tmp_path / "scores", np.tile([0.5, 0.25, 0.25], (50, 1)))
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    for array in (mapped, read_only(mapped)):
        assert np.shares_memory(simplex.check_scores(array, kind), array)


def _lacking(holder):
    scores = pd.DataFrame(good()[0], columns=COLUMNS)
    if holder == "frame":
        scores.iloc[17, 2] = np.nan
    elif holder == "nullable frame":
        scores = scores.astype("Float64")
        scores.iloc[17, 2] = pd.NA
    elif holder == "frame of categories":
        scores = scores.astype("category")
        scores.iloc[17, 2] = np.nan
    elif holder == "frame of objects":
        scores = scores.astype(object)
        scores.iloc[17, 2] = None
    elif holder == "array of objects":
        scores = scores.to_numpy().astype(object)
        scores[17, 2] = None
    else:
        columns = {name: scores[name].tolist() for name in COLUMNS}
        columns["f2"][17] = None
        scores = pl.DataFrame(columns)
        if holder == "arrow table":
            scores = pa.table(columns)
        elif holder == "arrow batch":
            scores = pa.record_batch(columns)
    return scores


@pytest.mark.parametrize(
    "holder",
    [
        "frame",
        "nullable frame",
        "frame of categories",
        "frame of objects",
        "array of objects",
        "polars",
        pytest.param("arrow table", marks=needs_arrow),
        pytest.param("arrow batch", marks=needs_arrow),
    ],
)
@new_names
@each_action
def test_a_missing_score_is_refused_with_its_cell(action, holder):
    mend = ("fill", "drop", "remove", "repair")
    with refused(errors.NonFiniteError, "scores[17, 2]", mend):
        use(AnyCalibrator, action, _lacking(holder))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame,
        lambda columns: pd.DataFrame(columns).astype("category"),
        pl.DataFrame,
        pytest.param(getattr(pa, "table", None), marks=needs_arrow),
    ],
    ids=["pandas", "pandas categories", "polars", "pyarrow"],
)
@new_names
@each_action
def test_a_frame_with_a_column_of_text_is_refused(action, frame):
    scores = good()[0]
    columns = {"f0": scores[:, 0], "f1": scores[:, 1], "f2": ["much"] * 200}
    with refused(errors.ContainerError, "scores", ("f2", "much", "numbers")):
        use(AnyCalibrator, action, frame(columns))


@each_reader
def test_set_output_decides_on_the_type_of_the_result(calibrator):
    estimator = calibrator().fit(*good())
    plain = estimator.transform(fresh())
    assert type(plain) is np.ndarray
    index = np.arange(150)[::-1]
    frame = pd.DataFrame(fresh(), index=index)
    assert type(estimator.transform(frame)) is np.ndarray
    out = estimator.set_output(transform="pandas").transform(frame)
    assert isinstance(out, pd.DataFrame)
    assert out.index.tolist() == index.tolist()
    assert out.columns.tolist() == estimator.get_feature_names_out().tolist()
    assert np.array_equal(out.to_numpy(), plain)
    out = estimator.set_output(transform="polars").transform(fresh())
    assert isinstance(out, pl.DataFrame)
    assert np.array_equal(out.to_numpy(), plain)


@pytest.mark.parametrize("form", ["csr_matrix", "csr_array", "coo_array"])
@each_action
def test_sparse_scores_are_refused_with_the_way_to_dense(action, form):
    with refused(errors.ContainerError, "scores", "parse", ".toarray()"):
        use(AnyCalibrator, action, getattr(sparse, form)(good()[0]))


@each_kind
@each_action
def test_masked_scores_are_refused_with_their_cell(kind, action):
    scores = np.ma.array(good(kind)[0])
    scores[17, 2] = np.ma.masked
    with refused(errors.DataError, "scores[17, 2]", "mask", ("fill", "drop")):
        use(AnyCalibrator, action, scores, kind)


@pytest.mark.parametrize("text", [False, True])
def test_masked_labels_are_refused_with_their_row(text):
    scores, y = good()
    y = np.array(["ant", "bee", "cat"])[y] if text else y
    with refused(errors.LabelError, "y[9]", "mask", ("fill", "drop")):
        AnyCalibrator().fit(scores, np.ma.array(y, mask=np.arange(200) == 9))


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: (row for row in rows),
        iter,
        lambda rows: map(list, rows),
        lambda rows: {j: rows[:, j] for j in range(3)},
        lambda rows: {tuple(row) for row in rows},
        lambda rows: memoryview(rows.tobytes()),
        lambda _: None,
        lambda _: "probabilities",
        lambda _: 0.5,
        lambda rows: pl.DataFrame(rows).lazy(),
        lambda _: [[0.5, 0.5, 0.0], [1.0, 0.0]],
        DeviceTensor,
    ],
    ids=[
        "generator",
        "iterator",
        "map",
        "mapping",
        "set",
        "bytes",
        "None",
        "text",
        "number",
        "lazy frame",
        "ragged",
        "device tensor",
    ],
)
@each_action
def test_what_holds_no_matrix_is_refused(action, make):
    """With what to pass instead."""
    remedy = ("array", "frame", "collect()", "cpu()", "rows", "columns")
    with refused(errors.DataError, "scores", remedy):
        use(AnyCalibrator, action, make(good()[0]))


@each_action
def test_bfloat16_is_refused_with_the_way_to_float32(action):
    scores = HalfTensor(good()[0])
    with refused(errors.ContainerError, "scores", "bfloat16", "pass scores.float()"):
        use(AnyCalibrator, action, scores)
    use(AnyCalibrator, action, scores.float())


@each_action
def test_bfloat16_of_arrays_is_refused_with_the_way_to_float32(action):
    """As jax has it; numpy knows the type only with ml_dtypes."""
    types = pytest.importorskip("ml_dtypes")
    scores = good()[0].astype(types.bfloat16)
    with refused(errors.ContainerError, "scores", "bfloat16", "scores.astype(np.float32)"):
        use(AnyCalibrator, action, scores)


@each_action
def test_bfloat16_of_torch_is_refused(action):
    torch = pytest.importorskip("torch")
    scores = torch.as_tensor(good()[0], dtype=torch.bfloat16)
    with refused(errors.ContainerError, "scores", "bfloat16", "pass scores.float()"):
        use(AnyCalibrator, action, scores)
