"""Statistics: bytes, merges and what is refused."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from calibrant import errors
from calibrant.datasets import simulated_scores
from calibrant.scale._statistics import RowStatistics, Statistics
from scale.forged import rewritten

SCORES, Y = simulated_scores(500)


def counted(**options):
    """Statistics of a few rows."""
    return RowStatistics([0, 1, 2], **options).update(SCORES, Y)


@pytest.mark.parametrize(
    "other",
    [
        RowStatistics([0, 1, 3]),
        RowStatistics([0, 1]),
        RowStatistics([0, 1, 2], scores="logits"),
        RowStatistics([0, 1, 2], max_rows=7),
        RowStatistics([0, 1, 2], normalize="rows"),
    ],
)
def test_other_statistics_do_not_merge(other):
    whole = counted()
    before = whole.to_bytes()
    with pytest.raises(errors.ParameterError, match="cannot be added"):
        whole.merge(other)
    assert whole.to_bytes() == before


def test_a_bad_row_leaves_everything_as_it_was():
    whole = counted()
    before = whole.to_bytes()
    bad = SCORES.copy()
    bad[499, 2] = np.nan
    with pytest.raises(errors.NonFiniteError, match=r"scores\[499, 2\]"):
        whole.update(bad, Y)
    with pytest.raises(errors.ShapeError, match="has 2 columns, but there are 3 classes"):
        whole.update(SCORES[:, :2], Y)
    with pytest.raises(errors.WeightError, match="expected"):
        whole.update(SCORES, Y, np.zeros(3))
    whole.update(SCORES, Y, np.zeros(500))  # rows of no weight are no rows
    whole.update(SCORES[:0], Y[:0])
    assert whole.to_bytes() == before


def test_every_damaged_byte_is_noticed_or_harmless():
    data = counted(max_rows=20).to_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(data), size=400):
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.integers(8)
        try:
            found = Statistics.from_bytes(bytes(damaged))
        except errors.StatisticsError:
            continue
        assert found.to_bytes() == data  # in what a zip file says twice, or not at all


@pytest.mark.parametrize("size", [0, 1, 30, 1000, -1])
def test_bytes_that_end_too_early_are_refused(size):
    with pytest.raises(errors.StatisticsError, match="damaged"):
        Statistics.from_bytes(counted().to_bytes()[:size])


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "magic"},
        {"method": None},
        {"scores": "odds"},
        {"parts": ["magic"]},
        {"max_rows": -1},
        {"n_rows": "many"},
        {"classes.npy": np.array([object()])},
        {"labels.npy": np.ones((2, 5))},
        {"labels.npy": np.array([-1.0, 1.0, 500.0])},
        {"labels.npy": np.array(["a"])},
        {"kept/scores.npy": np.ones((3, 4))},
        {"kept/scores.npy": np.full((500, 3), np.nan)},
        {"kept/class_index.npy": np.full(500, 7)},
        {"kept/class_index.npy": np.zeros(499, dtype=np.int64)},
        {"kept/weight.npy": np.full(500, -1.0)},
        {"kept/weight.npy": np.full(500, np.inf)},
        {"kept/bound.npy": np.zeros(3, dtype=np.uint64)},
        {"kept/other_scores.npy": np.full((1, 3), 7.0)},
    ],
)
def test_what_a_stranger_wrote_is_checked(changes):
    with pytest.raises(errors.StatisticsError):
        Statistics.from_bytes(rewritten(counted().to_bytes(), changes))


def test_another_format_is_refused_with_a_remedy():
    data = rewritten(counted().to_bytes(), {"format": "calibrant statistics 2"})
    with pytest.raises(errors.StatisticsError, match=r"statistics 2' cannot be read.* rows again"):
        Statistics.from_bytes(data)


def test_a_compressed_archive_is_refused():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("about.json", "0" * 10**6)
    with pytest.raises(errors.StatisticsError, match="compressed"):
        Statistics.from_bytes(out.getvalue())


def test_rows_alone_are_no_fit():
    with pytest.raises(errors.StatisticsError, match="fit_statistics"):
        counted().solve()
