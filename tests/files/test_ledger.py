"""Statistics on disk: resumed, added to, and never half written."""

from __future__ import annotations

import pytest

import calibrant
from calibrant import errors
from calibrant.datasets import simulated_scores
from calibrant.files.ledger import Ledger

SCORES, Y = simulated_scores(600)
EMPTY = calibrant.FlattenedIsotonic().statistics([0, 1, 2])


@pytest.fixture
def files(tmp_path):
    """Three files of different sizes; what is in them does not matter here."""
    found = [tmp_path / "data" / f"{i}.parquet" for i in range(3)]
    found[0].parent.mkdir()
    for i, file in enumerate(found):
        file.write_bytes(b"x" * (i + 1))
    return found


def count(i):
    """Statistics of the i-th file."""
    return EMPTY.empty().update(SCORES[i::3], Y[i::3])


def test_files_are_counted_once(files, tmp_path):
    path = tmp_path / "kept"
    first = Ledger(EMPTY.empty(), files[0].parent, path)
    assert first.new_files(files) == files
    first.add(files[0], count(0))
    second = Ledger(EMPTY.empty(), files[0].parent, path)  # whoever was killed comes again
    assert second.new_files(files) == files[1:]
    for i in (2, 1):
        second.add(files[i], count(i))
    assert second.statistics.to_bytes() == EMPTY.empty().update(SCORES, Y).to_bytes()
    last = Ledger(EMPTY.empty(), files[0].parent, path)
    assert last.new_files(files) == []
    assert last.can_repeat(files)
    assert not last.can_repeat(files[1:])


def test_rows_that_weigh_less_cannot_be_read_again(files, tmp_path):
    path = tmp_path / "kept"
    ledger = Ledger(EMPTY.empty(), files[0].parent, path)
    ledger.add(files[0], count(0))
    ledger.decay(1.0)
    assert ledger.can_repeat(files)
    ledger.decay(0.5)
    ledger.add(files[1], count(1))
    again = Ledger(EMPTY.empty(), files[0].parent, path)
    assert again.statistics.weight == pytest.approx(100 + 200)
    assert not again.can_repeat(files)


def test_a_file_that_changed_is_refused(files, tmp_path):
    ledger = Ledger(EMPTY.empty(), files[0].parent, tmp_path / "kept")
    ledger.add(files[0], count(0))
    files[0].write_bytes(b"longer than before")
    with pytest.raises(errors.PredictionFileError, match=r"0\.parquet.*changed"):
        ledger.new_files(files)


def test_what_is_no_ledger_is_refused(files, tmp_path):
    path = tmp_path / "kept"
    Ledger(EMPTY.empty(), files[0].parent, path).add(files[0], count(0))
    other = calibrant.FlattenedIsotonic().statistics([0, 1, 7])
    with pytest.raises(errors.StatisticsError, match=r"kept: .*cannot be added.*name another file"):
        Ledger(other, files[0].parent, path)
    data = path.read_bytes()
    for damaged in (b"", b"no zip file", data[:-50], data.replace(b"has_decayed", b"has_decoyed")):
        path.write_bytes(damaged)
        with pytest.raises(errors.StatisticsError, match="kept"):
            Ledger(EMPTY.empty(), files[0].parent, path)


def test_a_file_of_its_own_directory(tmp_path):
    table = tmp_path / "a.parquet"
    table.write_bytes(b"x")
    ledger = Ledger(EMPTY.empty(), table, tmp_path / "kept")
    ledger.add(table, count(0))
    assert Ledger(EMPTY.empty(), table, tmp_path / "kept").new_files([table]) == []
