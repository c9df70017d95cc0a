"""Tables larger than memory: the same samples from every kind of file, errors with file and row."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import calibrant
from calibrant import errors, metrics
from calibrant.datasets import simulated_scores
from calibrant.scale import RowSample, open_tables

pytest.importorskip("pyarrow")

SCORES, Y = simulated_scores(900)
NAMES = ["ant", "bee", "cow"]
FRAME = pd.DataFrame(SCORES, columns=NAMES).assign(label=np.array(NAMES)[Y])
FRAME["weight"] = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 4.0], len(Y))
WRITERS = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    ".parquet": lambda frame, path: frame.to_parquet(path, index=False, row_group_size=70),
    ".feather": lambda frame, path: frame.to_feather(path),
}


def write(folder, suffix=".parquet", frame=FRAME, n_files=3):
    """A directory of files, one of them below it."""
    for i in range(n_files):
        path = folder / ("sub" if i == 1 else ".") / f"{i}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        WRITERS[suffix](frame[i::n_files].reset_index(drop=True), path)
    (folder / "_SUCCESS").touch()  # as Spark writes it
    return folder


@pytest.mark.parametrize("max_cells", [1 << 24, 600])
@pytest.mark.parametrize("suffix", WRITERS)
def test_every_kind_of_file_gives_the_sample_of_the_rows_in_memory(
    tmp_path, monkeypatch, suffix, max_cells
):
    monkeypatch.setattr("calibrant._files.tables.CHUNK_BYTES", 8 * 400)
    chunks = open_tables(write(tmp_path, suffix), scores=NAMES, weight="weight")
    assert chunks.labels().tolist() == NAMES
    wanted = RowSample(NAMES, max_cells=max_cells)
    wanted.update(SCORES, FRAME["label"], FRAME["weight"])
    found = chunks.sample(NAMES, max_cells=max_cells)
    for name in ("scores", "class_index", "weight"):
        assert_array_equal(getattr(found.batch(), name), getattr(wanted.batch(), name))


def test_predictions_and_metrics(tmp_path):
    write(tmp_path)
    chunks = open_tables([tmp_path / "0.parquet", tmp_path / "sub"], scores=NAMES)
    frame = pd.concat([FRAME[0::3], FRAME[1::3]])
    calibrator = calibrant.TemperatureScaling().fit(chunks)
    rows = np.concatenate(list(calibrator.predict_proba(chunks)))
    assert_array_equal(rows, calibrator.predict_proba(frame[NAMES]))
    wanted = metrics.brier_score(frame["label"], frame[NAMES])
    assert metrics.brier_score(chunks) == pytest.approx(wanted)
    blind = open_tables(tmp_path, scores=NAMES, label=None)
    assert len(np.concatenate(list(calibrator.predict_proba(blind)))) == len(FRAME)
    with pytest.raises(errors.LabelError, match="label="):
        calibrator.fit(blind)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("bee", np.nan, r"1.parquet, row 99: column 'bee' is nan"),
        ("label", None, r"1.parquet, row 99 .*the label is missing.*\(label=\)"),
        ("weight", -1.0, r"1.parquet, row 99: column 'weight' is -1.0"),
        ("bee", 9.0, r"row 99: column 'bee' is 9.0: .*did you mean scores='logits'"),
    ],
)
def test_a_fault_is_named_by_file_row_and_column(tmp_path, monkeypatch, column, value, words):
    monkeypatch.setattr("calibrant._files.tables.CHUNK_BYTES", 8 * 400)
    bad = FRAME.astype({"label": object})
    bad.loc[1 + 3 * 99, column] = value
    chunks = open_tables(write(tmp_path, frame=bad), scores=NAMES, weight="weight")
    with pytest.raises(errors.DataError, match=words):
        calibrant.TemperatureScaling(classes=NAMES).fit(chunks)


def test_files_that_cannot_be_meant_are_refused(tmp_path):
    with pytest.raises(errors.PredictionFileError, match=str(tmp_path)):
        open_tables(tmp_path, scores=NAMES)
    write(tmp_path)
    with pytest.raises(
        errors.PredictionFileError, match=r"no column 'dog' \(scores=\); it has 'ant"
    ):
        open_tables(tmp_path, scores=[*NAMES, "dog"])
    FRAME.drop(columns="cow").to_parquet(tmp_path / "9.parquet")
    with pytest.raises(errors.PredictionFileError, match=r"9\.parquet has no column 'cow'"):
        calibrant.TemperatureScaling().fit(open_tables(tmp_path, scores=NAMES))


def test_files_of_several_kinds_and_columns_in_the_order_they_are_named_in(tmp_path):
    write(tmp_path)
    FRAME[["label", "cow", "ant", "bee"]].to_csv(tmp_path / "other.csv", index=False, sep=";")
    order = ["cow", "ant", "bee"]
    chunks = open_tables(tmp_path, scores=order)
    assert chunks.names == order
    wanted = RowSample(order).update(SCORES[:, [2, 0, 1]], FRAME["label"])
    wanted.update(SCORES[:, [2, 0, 1]], FRAME["label"])
    assert_array_equal(chunks.sample(order).batch().scores, wanted.batch().scores)
    np.save(tmp_path / "p.npy", SCORES)
    with pytest.raises(errors.PredictionFileError, match=r"p\.npy"):
        open_tables(tmp_path / "p.npy", scores=order)


def test_tables_without_rows_are_refused(tmp_path):
    empty = open_tables(write(tmp_path, frame=FRAME[:0]), scores=NAMES)
    for classes in (None, NAMES):
        with pytest.raises(errors.ShapeError, match="no row"):
            calibrant.TemperatureScaling(classes=classes).fit(empty)
