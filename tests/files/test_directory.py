"""Directories of tables: the rows of one table, whatever the files are like."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import calibrant
from calibrant import _threads as threads
from calibrant import errors
from calibrant._files.directory import TableChunks, find_tables
from calibrant._files.tables import ColumnSelection
from calibrant.datasets import simulated_scores

NAMES = np.array(["ant", "bee", "cow"])
SCORES, Y = simulated_scores(900)
FRAME = pd.DataFrame(SCORES, columns=NAMES).assign(label=NAMES[Y])


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


def chunks_of(path, **options):
    """Chunks of a directory, with nothing said about it."""
    return TableChunks(path, **{"selection": ColumnSelection(), **options})


def test_a_fit_to_a_directory_is_the_fit_in_memory(days):
    found = chunks_of(days)
    assert [file.name for file in found.files] == ["a.parquet", "e.csv", "f.arrow"]
    assert found.labels().tolist() == NAMES.tolist()
    far = calibrant.FlattenedIsotonic(classes=found.classes).fit(found, None)
    near = calibrant.FlattenedIsotonic().fit(FRAME[NAMES], FRAME["label"])
    assert_array_equal(far.classes_, near.classes_)
    assert_array_equal(far.predict_proba(FRAME[NAMES]), near.predict_proba(FRAME[NAMES]))


def test_threads_change_nothing(days):
    empty = calibrant.FlattenedIsotonic().statistics(NAMES)
    one = chunks_of(days).count(empty).to_bytes()
    with threads.jobs(2):
        assert chunks_of(days).count(empty).to_bytes() == one
    parts = list(chunks_of(days).count_each(empty, find_tables(days)))
    assert parts[0].merge(parts[1]).merge(parts[2]).to_bytes() == one


def test_progress_counts_rows(days):
    seen = []
    found = chunks_of(days, progress=lambda *told: seen.append(told))
    found.count(calibrant.FlattenedIsotonic().statistics(found))
    assert [told[:2] for told in seen] == [(n, None) for n in (200, 500, 900)] + [
        (n, 900) for n in (200, 500, 900)
    ]
    assert [told[2].partition(" /")[0] for told in seen[2:4]] == [
        "reading the labels of",
        "reading",
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop(columns="bee"), r"g\.parquet has no column 'bee'"),
        (lambda f: f.drop(columns="label"), r"g\.parquet has no column 'label'"),
        (lambda f: f.assign(bee=f.bee.mask(f.index == 507)), r"g\.parquet, row 7 \(from 0\), col"),
        (lambda f: f.assign(label=f.label.mask(f.index == 511)), r"row 11 .*label is missing"),
        (lambda f: f.assign(ant=f.ant + 1.0), r"g\.parquet, row 0 \(from 0\), column 'ant'"),
        (lambda f: f.assign(bee="x"), "bee"),
    ],
)
def test_a_fault_names_file_and_row(days, change, words):
    change(FRAME[500:]).to_parquet(days / "g.parquet")
    calibrator = calibrant.FlattenedIsotonic(classes=list(NAMES))
    with pytest.raises(ValueError, match=words):
        calibrator.fit(chunks_of(days), None)
    assert not hasattr(calibrator, "map_")


def test_a_row_far_inside_a_file_is_named_by_its_place_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr("calibrant._files.tables.CHUNK_BYTES", 8 * 4 * 100)
    FRAME.assign(bee=FRAME.bee.mask(FRAME.index == 777)).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(
        errors.NonFiniteError, match=r"a\.parquet, row 777 \(from 0\), column 'bee'"
    ):
        calibrant.FlattenedIsotonic(classes=list(NAMES)).fit(chunks_of(tmp_path), None)


def test_labels_that_look_like_numbers_in_one_file_are_text_in_all(tmp_path):
    frame = FRAME.set_axis(["1", "2", "x", "label"], axis=1)
    frame["label"] = np.array(["1", "2", "x"])[Y]
    frame[frame.label != "x"].to_csv(tmp_path / "a.csv", index=False)
    frame[frame.label == "x"].to_csv(tmp_path / "e.csv", index=False)
    found = chunks_of(tmp_path)
    assert found.labels().tolist() == ["1", "2", "x"]
    assert calibrant.FlattenedIsotonic().fit(found, None).classes_.tolist() == ["1", "2", "x"]


def test_what_is_no_directory_of_tables_is_refused(tmp_path):
    with pytest.raises(errors.PredictionFileError, match=r"directory without \.parquet"):
        find_tables(tmp_path)
    np.save(tmp_path / "a.npy", SCORES)
    with pytest.raises(errors.PredictionFileError, match="not a table that can be read in chunks"):
        find_tables(tmp_path / "a.npy")
    FRAME.drop(columns="label").to_parquet(tmp_path / "a.parquet")
    with pytest.raises(errors.PredictionFileError, match="no labels"):
        chunks_of(tmp_path)


def test_an_unknown_label_is_told_by_its_own_file_and_row(days):
    FRAME[:9].assign(label=["dog" if i == 7 else "bee" for i in range(9)]).to_parquet(
        days / "z.parquet"
    )
    with pytest.raises(errors.PredictionFileError, match=r"z\.parquet, row 7 \(from 0\).*'dog'"):
        chunks_of(days).labels()
    FRAME[:9].assign(label=["dog" if i == 7 else "bee" for i in range(9)]).to_csv(
        days / "b.csv", index=False
    )
    with pytest.raises(errors.PredictionFileError, match=r"b\.csv, line 9.*'dog'"):
        chunks_of(days).labels()


def test_a_truncated_file_among_many_is_named(days):
    path = days / "f.parquet"
    FRAME.to_parquet(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(errors.PredictionFileError, match=r"f\.parquet cannot be read as Parquet"):
        chunks_of(days).labels()


def test_labels_of_different_types_are_told_by_both_places(tmp_path):
    frame = FRAME.set_axis(["0", "1", "2", "label"], axis=1)
    frame.assign(label=Y).to_parquet(tmp_path / "a.parquet")
    frame[:9].assign(label=["1"] * 8 + ["cat"]).to_parquet(tmp_path / "b.parquet")
    told = r"b\.parquet, row 8 \(from 0\): the label is 'cat'.*a\.parquet, row 0.*in the same way"
    with pytest.raises(errors.PredictionFileError, match=told):
        chunks_of(tmp_path).labels()


def test_whole_numbers_and_text_of_whole_numbers_are_alike(tmp_path):
    frame = FRAME.set_axis(["0", "1", "2", "label"], axis=1).assign(label=Y)
    frame[:400].to_parquet(tmp_path / "a.parquet")
    frame[400:].astype({"label": str}).to_parquet(tmp_path / "b.parquet")
    found = chunks_of(tmp_path)
    assert found.labels().tolist() == [0, 1, 2]
    far = calibrant.FlattenedIsotonic(classes=found.classes).fit(found, None)
    near = calibrant.FlattenedIsotonic().fit(SCORES, Y)
    assert_array_equal(far.predict_proba(frame[["0", "1", "2"]]), near.predict_proba(SCORES))
