"""Statistics on disk: resumed, added to, and never half written."""

from __future__ import annotations

import io
import os
import warnings
import zipfile

import pytest

import calibrant
from calibrant import errors
from calibrant._files.ledger import Ledger
from calibrant.datasets import simulated_scores

SCORES, Y = simulated_scores(600)
EMPTY = calibrant.FlattenedIsotonic().statistics([0, 1, 2])


@pytest.fixture
def files(tmp_path):
    """Three files; what is in them does not matter here."""
    found = [tmp_path / "data" / f"{i}.parquet" for i in range(3)]
    found[0].parent.mkdir()
    for i, file in enumerate(found):
        file.write_bytes(f"file {i}".encode())
    return found


@pytest.fixture
def path(tmp_path):
    """Where the ledger is kept."""
    return tmp_path / "kept"


def count(file):
    """Statistics of a file, of rows that go by its content."""
    i = int(file.read_bytes()[5:6])
    return EMPTY.empty().update(SCORES[i::3], Y[i::3])


class KilledError(Exception):
    """Stands for kill -9."""


def run(path, files, decay=1.0, most=100):
    """Count what is new, as the command does; killed after ``most`` files."""
    ledger = Ledger(EMPTY.empty(), files[0].parent, path)
    done = []
    for night in ledger.runs(files, decay):
        for file in night:
            if len(done) == most:
                raise KilledError
            ledger.add(file, count(file))
            done.append(file)
    return ledger, done


def test_files_are_counted_once(files, path):
    with pytest.raises(KilledError):
        run(path, files, most=1)
    ledger, done = run(path, files)  # whoever was killed comes again
    assert done == files[1:]
    assert ledger.statistics.to_bytes() == EMPTY.empty().update(SCORES, Y).to_bytes()
    last, done = run(path, files)
    assert done == []
    assert last.can_repeat(files)
    assert not last.can_repeat(files[1:])
    os.utime(files[0], ns=(1, 1))  # touched, and the same
    assert run(path, files)[1] == []
    copy = files[0].with_name("3.parquet")
    copy.write_bytes(b"file 0 and more")
    assert not run(path, [*files, copy], decay=0.5)[0].can_repeat([*files, copy])


@pytest.mark.parametrize("most", [0, 1])
def test_a_night_that_was_interrupted_is_finished_without_a_second_decay(files, path, most):
    run(path, files[:1])
    with pytest.raises(KilledError):
        run(path, files, decay=0.5, most=most)
    ledger, done = run(path, files, decay=0.5)
    assert done == files[1 + most :]
    assert ledger.statistics.weight == pytest.approx(100 + 200 + 200)
    whole = path.with_name("uninterrupted")
    run(whole, files[:1])
    run(whole, files, decay=0.5)
    assert path.read_bytes() == whole.read_bytes()


def test_what_came_after_an_interruption_is_a_night_of_its_own(files, path):
    run(path, files[:1])
    with pytest.raises(KilledError):
        run(path, files[:2], decay=0.5, most=0)
    with pytest.warns(errors.CalibrantWarning, match=r"had --decay 0\.5"):
        ledger, done = run(path, files, decay=0.1)
    assert done == files[1:]
    assert ledger.statistics.weight == pytest.approx(0.1 * (0.5 * 200 + 200) + 200)


def test_a_file_of_an_interrupted_night_may_be_gone_or_have_another_name(files, path):
    run(path, files[:1])
    with pytest.raises(KilledError):
        run(path, files, decay=0.5, most=0)
    renamed = files[1].rename(files[1].with_name("9.parquet"))
    with pytest.warns(errors.CalibrantWarning, match=r"2\.parquet.*is missing"):
        ledger, done = run(path, [files[0], renamed], decay=0.5)
    assert done == [renamed]
    assert ledger.statistics.weight == pytest.approx(100 + 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(path, [files[0], renamed], decay=0.5)[1] == []


def test_a_renamed_file_is_not_counted_again(files, path):
    run(path, files)
    moved = files[0].rename(files[0].with_name("other.parquet"))
    with pytest.warns(
        errors.CalibrantWarning, match=r"other\.parquet was counted before as '0\.parquet'"
    ):
        ledger, done = run(path, [*files[1:], moved])
    assert done == []
    assert ledger.can_repeat([*files[1:], moved])


def test_names_that_move_on_are_followed(files, path):
    """Rotated as logs are: 1 becomes 2, 0 becomes 1, and a new 0 comes."""
    run(path, files[:2])
    files[1].rename(files[2])
    files[0].rename(files[1])
    files[0].write_bytes(b"file 2")
    with pytest.warns(errors.CalibrantWarning, match="was counted before as"):
        ledger, done = run(path, files)
    assert done == [files[0]]
    assert ledger.statistics.to_bytes() == EMPTY.empty().update(SCORES, Y).to_bytes()


def test_a_file_that_took_the_place_of_another_is_a_change(files, path):
    """Else what the other had would be forgotten, and counted once more when it comes back."""
    run(path, files)
    files[0].replace(files[1])
    with (
        pytest.warns(errors.CalibrantWarning, match="was counted before as"),
        pytest.raises(errors.PredictionFileError, match=r"1\.parquet.* changed after"),
    ):
        run(path, files[1:])


def test_a_copy_is_counted_as_without_a_ledger_and_told(files, path):
    run(path, files)
    copy = files[0].with_name("copy.parquet")
    copy.write_bytes(files[0].read_bytes())
    with pytest.warns(errors.CalibrantWarning, match=r"copy\.parquet.*same content"):
        assert run(path, [*files, copy])[1] == [copy]


@pytest.mark.parametrize("content", [b"longer than before", b"FILE 0"])
@pytest.mark.parametrize("is_time_kept", [False, True])
def test_a_file_that_changed_is_refused(files, path, content, is_time_kept):
    run(path, files[:1])
    then = files[0].stat().st_mtime_ns
    files[0].write_bytes(content)
    if is_time_kept:
        os.utime(files[0], ns=(then, then))
    told = r"0\.parquet.*changed.*to new files"
    with pytest.raises(errors.PredictionFileError, match=told):
        run(path, files)


def test_a_file_that_changes_while_it_is_counted_is_refused(files, path):
    ledger = Ledger(EMPTY.empty(), files[0].parent, path)
    night = next(iter(ledger.runs(files, 1.0)))
    counted = count(files[0])
    files[0].write_bytes(b"file 2 and more")
    with pytest.raises(errors.PredictionFileError, match="changed while it was counted"):
        ledger.add(night[0], counted)
    assert run(path, files)[1] == files


def compressed(data):
    """The same in a few bytes, which could stand for any number of others."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", 8) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return out.getvalue()


def test_what_is_no_ledger_is_refused(files, path):
    run(path, files[:1])
    other = calibrant.FlattenedIsotonic().statistics([0, 1, 7])
    with pytest.raises(errors.StatisticsError, match=r"kept: .*cannot be added.*name another file"):
        Ledger(other, files[0].parent, path)
    data = path.read_bytes()
    for damaged in (
        b"",
        b"no zip file",
        data[:-50],
        data.replace(b"has_decayed", b"has_decoyed"),
        data.replace(b'"version": 2', b'"version": 9'),
        compressed(data),
    ):
        path.write_bytes(damaged)
        with pytest.raises(errors.StatisticsError, match="kept"):
            Ledger(EMPTY.empty(), files[0].parent, path)


def test_a_file_of_its_own_directory(files, path):
    ledger = Ledger(EMPTY.empty(), files[0], path)
    for night in ledger.runs(files[:1], 1.0):
        ledger.add(night[0], count(files[0]))
    assert list(Ledger(EMPTY.empty(), files[0], path).runs(files[:1], 1.0)) == []
