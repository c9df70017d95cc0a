from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest

from calibrant import FlattenedIsotonic, GroupedCalibrator, TemperatureScaling
from calibrant._bad_rows import bad_rows
from calibrant._files import apply
from calibrant._files.formats import read_prediction_file
from calibrant._files.source import Request
from calibrant.errors import NonFiniteError
from conftest import refuses, simulate, tells
from whole_files import ONE_OF_EACH, SUFFIXES, write_file

REQUEST = Request(usual_part="test")
NAMES = np.array(["ant", "bee", "cow"])


def apply_file(calibrator, source, target, **options):
    return apply.apply_file(calibrator, source, target, REQUEST, **options)


@pytest.fixture(scope="module")
def fitted():
    p, y = simulate(500, 3)
    return FlattenedIsotonic().fit(p, NAMES[y]), p, y


def write(path, p, y=None):
    frame = pd.DataFrame(p, columns=NAMES)
    return write_file(path, frame if y is None else frame.assign(label=NAMES[y]), NAMES)


PAIRS = {*product(ONE_OF_EACH, ONE_OF_EACH), *pairwise([*SUFFIXES, SUFFIXES[0]])}


@pytest.mark.parametrize(("out_of", "into"), sorted(PAIRS))
def test_every_format_into_every_other(tmp_path, fitted, out_of, into, monkeypatch):
    """Also in many chunks."""
    monkeypatch.setattr("calibrant._files.source.CHUNK_BYTES", 1000)
    calibrator, p, _ = fitted
    source, target = write(tmp_path / f"in{out_of}", p), tmp_path / f"out{into}"
    done = apply_file(calibrator, source, target)
    assert (done.n_rows, done.n_bad_rows) == (500, 0)
    out = read_prediction_file(target).scores
    np.testing.assert_array_equal(out, calibrator.predict_proba(p))


def test_a_bad_row_stops_with_its_number_and_leaves_no_file(tmp_path, fitted, monkeypatch):
    monkeypatch.setattr("calibrant._files.source.CHUNK_BYTES", 1000)
    calibrator, p, _ = fitted
    p = p.copy()
    p[321, 1] = np.nan
    target = tmp_path / "out.npy"
    with tells("in.npy, row 321 (from 0), column 1", error=NonFiniteError):
        apply_file(calibrator, write(tmp_path / "in.npy", p), target)
    with tells("in.csv, line 323, column 'bee'", error=NonFiniteError):
        apply_file(calibrator, write(tmp_path / "in.csv", p), target)
    assert [
        path.name for path in tmp_path.iterdir() if "out" in path.name or "tmp" in path.name
    ] == []


def test_bad_rows_are_skipped_or_marked(tmp_path, fitted):
    calibrator, p, _ = fitted
    p = p.copy()
    p[[3, 4, 400], 0] = [np.nan, 7.0, np.inf]
    source, target = write(tmp_path / "in.npy", p), tmp_path / "out.npy"
    good = np.delete(np.arange(500), [3, 4, 400])
    done = apply_file(calibrator, source, target, on_bad_row="skip")
    assert (done.n_rows, done.n_bad_rows) == (497, 3)
    assert [where.partition("in.npy, ")[2] for where in done.where] == [
        f"row {i} (from 0)" for i in (3, 4, 400)
    ]
    np.testing.assert_array_equal(np.load(target), calibrator.predict_proba(p[good]))
    apply_file(calibrator, source, target, on_bad_row="nan")
    out = np.load(target)
    assert np.isnan(out[[3, 4, 400]]).all()
    np.testing.assert_array_equal(out[good], calibrator.predict_proba(p[good]))
    assert bad_rows(p, "probabilities", None) == [3, 4, 400]


def test_bad_rows_of_columns_beside_the_scores_are_refused(tmp_path):
    p, y = simulate(120, 3)
    grouped = GroupedCalibrator(TemperatureScaling()).fit(p, y, groups=np.arange(120) % 2)
    source = write(tmp_path / "in.npy", p)
    request = Request(groups="region")
    with refuses("on_bad_row", value="skip"):
        apply.apply_file(grouped, source, tmp_path / "out.npy", request, on_bad_row="skip")


def test_float32_stays_float32(tmp_path):
    p, y = simulate(300, 3)
    calibrator = TemperatureScaling().fit(p, y)
    apply_file(calibrator, write(tmp_path / "in.npy", p.astype(np.float32)), tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").dtype == np.float32


def test_no_rows(tmp_path, fitted):
    source = write(tmp_path / "in.npy", np.empty((0, 3)))
    apply_file(fitted[0], source, tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").shape == (0, 3)


@pytest.mark.parametrize("cell", ["", "NA", "nan", "NaN", "null", "None", "N/A", "<NA>", '""'])
def test_a_missing_cell_makes_a_bad_row(tmp_path, fitted, cell):
    """Pandas writes an empty cell, or what ``na_rep`` says."""
    calibrator, p, y = fitted
    path = write(tmp_path / "in.csv", p[:5], y[:5])
    lines = path.read_text().splitlines()
    cells = lines[3].split(",")
    lines[3] = ",".join([cells[0], cell, *cells[2:]])
    path.write_text("\n".join(lines) + "\n")
    for on_bad_row, n_rows in (("skip", 4), ("nan", 5)):
        out = tmp_path / f"{on_bad_row}.parquet"
        done = apply_file(calibrator, path, out, on_bad_row=on_bad_row)
        assert (done.n_rows, done.n_bad_rows) == (n_rows, 1)
        assert [where.partition("in.csv, ")[2] for where in done.where] == ["line 4"]
    found = read_prediction_file(out).scores
    expected = calibrator.predict_proba(p[:5])
    expected[2] = np.nan
    np.testing.assert_array_equal(found, expected)
    with tells("line 4, column 'bee'"):
        apply_file(calibrator, path, tmp_path / "out.csv")
