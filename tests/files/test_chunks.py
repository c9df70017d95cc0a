"""Directories of tables and large files: the rows of a file that is read whole, in chunks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import calibrant
from calibrant import errors, metrics
from calibrant._calibrators.methods import make_calibrator
from calibrant._files import formats, tables
from calibrant._files.align import align
from calibrant._files.chunks import FileChunks
from calibrant._files.formats import is_large, read_prediction_file
from calibrant._files.source import Request
from calibrant.datasets import simulated_scores
from conftest import tells
from whole_files import TABLES, write_file

NAMES = np.array(["ant", "bee", "cow"])
SCORES, Y = simulated_scores(900)
FRAME = pd.DataFrame(SCORES, columns=NAMES).assign(label=NAMES[Y])

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


@pytest.fixture
def days(tmp_path):
    """Three files, in three formats and orders of columns."""
    (tmp_path / "day=1").mkdir()
    FRAME[:200].to_parquet(tmp_path / "day=1" / "a.parquet")
    FRAME[200:500][["label", "cow", "ant", "bee"]].to_csv(tmp_path / "e.csv", index=False)
    FRAME[500:].to_feather(tmp_path / "f.arrow")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.parquet").write_bytes(b"no table")
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "0.csv").write_text("no,table\n")
    (tmp_path / "notes.txt").write_text("none either")
    return tmp_path


def whole(path, *, positive_last=False, **said):
    """Rows of a path that is read whole, with what is said about it."""
    request = Request(**said)
    return align(read_prediction_file(path, request), request, positive_last=positive_last)


def chunks_of(path, *, positive_last=False, **said):
    """Chunks of a path and its first rows, with what is said about it."""
    return FileChunks(path, Request(**said), positive_last=positive_last).aligned()


def fit(found, method="fir", **parameters):
    """Fit a method to rows in memory or in chunks, as the command does."""
    about = {"scores": found.rows.kind, "classes": found.classes, "normalize": found.normalize}
    return make_calibrator(method, **about, **parameters).fit(*found.to_fit())


def test_a_fit_to_a_directory_is_the_fit_in_memory(days):
    found = chunks_of(days)
    assert "3 tables read; ignored 'notes.txt'" in found.chunks.note
    assert found.labels().tolist() == NAMES.tolist()
    far = fit(found)
    near = calibrant.FlattenedIsotonic().fit(FRAME[NAMES], FRAME["label"])
    assert_array_equal(far.classes_, near.classes_)
    assert_allclose(far.predict_proba(FRAME[NAMES]), near.predict_proba(FRAME[NAMES]), atol=1e-12)
    assert found.count_rows() == (900, 900)


def test_which_files_are_read_in_chunks(days, monkeypatch):
    np.save(days / "p.npy", SCORES)
    (days / "p.jsonl").write_text("{}\n")
    table, array = days / "e.csv", days / "p.npy"
    assert is_large(days)
    assert not is_large(table)
    monkeypatch.setattr(formats, "LARGE_BYTES", table.stat().st_size)
    assert not is_large(table)
    monkeypatch.setattr(formats, "LARGE_BYTES", table.stat().st_size - 1)
    assert is_large(table)
    monkeypatch.setattr(formats, "LARGE_BYTES", 0)
    assert is_large(array)
    assert not is_large(days / "p.jsonl")
    assert not is_large(days / "nowhere.csv")


def small_chunks(monkeypatch):
    """Let every file of this page come in several chunks."""
    monkeypatch.setattr(tables, "CHUNK_BYTES", 8 * 4 * 100)
    monkeypatch.setattr("calibrant._files.source.CHUNK_BYTES", 8 * 3 * 100)
    monkeypatch.setattr(tables, "BLOCK_BYTES", 1 << 12)


def write(path, scores, y, names, kind="probabilities"):
    """Write rows in the format of a suffix."""
    name = "probs" if kind in ("probabilities", "positive") else "logits"
    frame = pd.DataFrame(scores, columns=list(names)).assign(id="x", label=y)
    return write_file(path, frame, names, name)


@pytest.mark.parametrize("suffix", [*TABLES, ".npz"])
def test_a_large_file_gives_the_model_of_the_file_read_whole(tmp_path, monkeypatch, suffix):
    small_chunks(monkeypatch)
    for values, names in (
        (NAMES, NAMES),
        (np.array([7, 8, 30]), np.array(["7", "8", "30"])),
        (np.array([0.0, 1.0, 2.0]), np.array(["0", "1", "2"])),
    ):
        path = write(tmp_path / f"p{suffix}", SCORES, values[Y], names)
        far, near = chunks_of(path), whole(path)
        assert far.source == near.source == str(path)
        assert far.classes == near.classes
        for method in ("ts", "auto"):
            a, b = fit(far, method), fit(near, method)
            assert a.classes_.tolist() == b.classes_.tolist()
            assert a.classes_.dtype.kind == b.classes_.dtype.kind
            assert a.feature_names_in_.tolist() == b.feature_names_in_.tolist()
            assert_allclose(a.predict_proba(SCORES), b.predict_proba(SCORES), rtol=0, atol=1e-9)
        assert far.count_rows() == near.count_rows() == (900, 900)


KINDS = {
    "logits": (np.log(SCORES), Y, NAMES, {}),
    "positive": (SCORES[:, :1], (Y == 0).astype(int), ["p"], {}),
    "decision": (np.log(SCORES[:, :1] / (1 - SCORES[:, :1])), (Y == 0).astype(int), ["z"], {}),
    "probabilities": (100 * SCORES, Y, NAMES, {"normalize": True}),
}


def measured(found):
    """All metrics of rows in memory or in chunks, without draws."""
    rows, classes = found.to_measure()
    numbers = metrics.evaluate(rows, classes=classes, n_resamples=0).to_dict()
    shares = metrics.class_shares(rows, classes=classes).to_dict()
    test = metrics.calibration_test(rows, classes=classes, n_resamples=50).to_dict()
    return {"shares": shares, "test": test, **numbers}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [*TABLES, ".npz"])
def test_every_kind_of_scores_in_chunks(tmp_path, monkeypatch, suffix, kind):
    small_chunks(monkeypatch)
    scores, y, names, how = KINDS[kind]
    y = NAMES[y] if scores.shape[1] > 1 else y
    path = write(tmp_path / f"p{suffix}", scores, y, names, kind)
    far, near = chunks_of(path, kind=kind, **how), whole(path, kind=kind, **how)
    a, b = fit(far), fit(near)
    assert a.classes_.tolist() == b.classes_.tolist()
    assert_allclose(a.predict_proba(scores), b.predict_proba(scores), atol=1e-9)
    found, wanted = measured(far), measured(near)
    assert found.pop("missing") == wanted.pop("missing")
    pd.testing.assert_frame_equal(
        pd.json_normalize(found), pd.json_normalize(wanted), check_exact=False, rtol=1e-9
    )


def test_arrays_of_any_order(tmp_path, monkeypatch):
    small_chunks(monkeypatch)
    np.save(tmp_path / "y.npy", Y)
    wanted = calibrant.FlattenedIsotonic().fit(SCORES, Y).predict_proba(SCORES)
    for own in (SCORES, np.asfortranarray(SCORES)):
        np.save(tmp_path / "p.npy", own)
        np.savez_compressed(tmp_path / "p.npz", probs=own, labels=Y)
        with_labels = chunks_of(tmp_path / "p.npy", labels=tmp_path / "y.npy")
        for found in (with_labels, chunks_of(tmp_path / "p.npz")):
            assert_allclose(fit(found).predict_proba(SCORES), wanted, atol=1e-12)
            assert measured(found)["n_rows"] == 900


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda f: f.drop(columns="bee"), "'bee'"),
        (lambda f: f.drop(columns="label"), "'label'"),
        (lambda f: f.assign(bee=f.bee.mask(f.index == 507)), "row 7 (from 0), column 'bee'"),
        (lambda f: f.assign(label=f.label.mask(f.index == 511)), "row 11 (from 0): the label"),
        (lambda f: f.assign(ant=f.ant + 1.0), "row 0 (from 0), column 'ant' is 1."),
        (lambda f: f.assign(bee="x"), "column 'bee'"),
    ],
)
def test_a_fault_names_file_and_row(days, change, place):
    change(FRAME[500:]).to_parquet(days / "g.parquet")
    calibrator = calibrant.FlattenedIsotonic(classes=list(NAMES))
    with tells("g.parquet", place):
        calibrator.fit(chunks_of(days).chunks)
    assert not hasattr(calibrator, "map_")


@pytest.mark.parametrize("is_measured", [False, True])
def test_a_row_far_inside_a_file_is_named_by_its_place_in_it(tmp_path, monkeypatch, is_measured):
    small_chunks(monkeypatch)
    bad = FRAME.assign(bee=FRAME.bee.mask(FRAME.index == 777))
    bad.to_parquet(tmp_path / "a.parquet")
    bad.fillna(7.5).to_csv(tmp_path / "a.csv", index=False)
    use = measured if is_measured else fit
    with tells("a.parquet, row 777 (from 0), column 'bee'", error=errors.NonFiniteError):
        use(chunks_of(tmp_path / "a.parquet"))
    with tells("a.csv, line 779, column 'bee' is 7.5", error=errors.RangeError):
        use(chunks_of(tmp_path / "a.csv"))


def test_an_unknown_label_is_told_by_its_own_file_and_row(days):
    strange = FRAME[:9].assign(label=["dog" if i == 7 else "bee" for i in range(9)])
    strange.to_parquet(days / "z.parquet")
    with tells("z.parquet, row 7 (from 0)", "'dog'"):
        fit(chunks_of(days))
    strange.to_csv(days / "b.csv", index=False)
    with tells("b.csv, line 9", "'dog'"):
        fit(chunks_of(days))
    (days / "new").mkdir()
    frame = FRAME.set_axis(["0", "1", "2", "label"], axis=1)  # a word among numbers
    frame.assign(label=Y).to_parquet(days / "new" / "a.parquet")
    frame[:9].assign(label=["1"] * 8 + ["cat"]).to_parquet(days / "new" / "b.parquet")
    with tells("b.parquet, row 8 (from 0)", "'cat'", "'0', '1', '2'"):
        fit(chunks_of(days / "new"))


@pytest.mark.parametrize("positive", [None, "no", "yes"])
@pytest.mark.parametrize("names", [("p_yes", "p_no"), ("p_no", "p_yes")])
def test_two_columns_in_the_order_of_their_classes(tmp_path, names, positive):
    p = SCORES[:, 0]
    columns = {"p_yes": p, "p_no": 1 - p}
    frame = pd.DataFrame({name: columns[name] for name in names})
    path = tmp_path / "p.csv"
    frame.assign(label=np.where(Y == 0, "yes", "no")).to_csv(path, index=False)
    far, near = (read(path, positive=positive, positive_last=True) for read in (chunks_of, whole))
    assert far.classes == near.classes
    assert far.chunks.names == near.rows.place.names
    a, b = fit(far), fit(near)
    assert a.classes_.tolist() == b.classes_.tolist()
    assert_allclose(a.predict_proba(frame), b.predict_proba(frame), atol=1e-9)
    assert measured(far)["binary"]["auc"] == measured(near)["binary"]["auc"]


def test_a_directory_without_rows_or_labels_is_refused(tmp_path):
    for frame, fact in ((FRAME.drop(columns="label"), "labels"), (FRAME[:0], "rows")):
        frame.to_parquet(tmp_path / "a.parquet")
        with tells(fact):
            chunks_of(tmp_path, label="label" if fact == "rows" else None)


def test_a_directory_is_read_whole_where_all_rows_are_needed(tmp_path):
    """Rows of several files and types are in one, and know where they stand."""
    FRAME[:100].assign(day=1).to_parquet(tmp_path / "a.parquet")
    text = FRAME[100:200].assign(day="2", bee=FRAME.bee.mask(FRAME.index == 103))
    text[["day", "cow", "bee", "ant", "label"]].to_csv(tmp_path / "b.csv", index=False)
    found = whole(tmp_path, groups="day")
    assert found.groups.tolist() == ["1"] * 100 + ["2"] * 100
    assert_array_equal(found.rows.scores[:100], SCORES[:100])
    with tells("b.csv, line 5, column 'bee'"):
        found.check()


def test_labels_that_look_like_numbers_in_one_file_are_text_in_all(tmp_path):
    frame = FRAME.set_axis(["1", "2", "x", "label"], axis=1)
    frame["label"] = np.array(["1", "2", "x"])[Y]
    frame[frame.label != "x"].to_csv(tmp_path / "a.csv", index=False)
    frame[frame.label == "x"].to_csv(tmp_path / "e.csv", index=False)
    numbers = frame[frame.label != "x"]
    numbers.astype({"label": float}).to_parquet(tmp_path / "n.parquet")
    found = chunks_of(tmp_path)
    assert found.labels().tolist() == ["1", "2", "x"]
    assert fit(found).classes_.tolist() == ["1", "2", "x"]
    assert found.count_rows() == (900 + len(numbers),) * 2


def test_the_first_file_may_have_no_rows_or_lack_a_class(tmp_path):
    logits = pd.DataFrame(np.log(SCORES), columns=NAMES).assign(label=NAMES[Y])
    logits[:0].to_parquet(tmp_path / "0.parquet")  # as Spark writes an empty partition
    logits[logits.label != "cow"].to_parquet(tmp_path / "1.parquet")
    logits[logits.label == "cow"].to_parquet(tmp_path / "2.parquet")
    assert fit(chunks_of(tmp_path, kind="logits"), "ts").classes_.tolist() == NAMES.tolist()
