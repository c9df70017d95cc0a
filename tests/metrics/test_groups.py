"""``evaluate(..., groups=)``: every group by itself, tested together."""

import numpy as np
import pytest

from calibrant import errors
from calibrant.metrics import calibration_test, evaluate
from calibrant.metrics._unbinned import holm
from conftest import simulate

P, Y = simulate(900, 3, 0)
HONEST = np.random.default_rng(1)
LABELS = (P.cumsum(axis=1) > HONEST.uniform(size=(900, 1))).argmax(axis=1)
GROUPS = np.repeat(["big", "middle", "small"], [600, 260, 40])
QUICK = {"n_resamples": 20}


def test_a_group_has_the_numbers_of_its_rows_alone():
    weight = np.random.default_rng(2).integers(0, 3, len(Y)).astype(float)
    found = evaluate(Y, P, sample_weight=weight, groups=GROUPS, classes=[0, 1, 2], **QUICK)
    whole = evaluate(Y, P, sample_weight=weight, classes=[0, 1, 2], **QUICK)
    assert found.estimates() == whole.estimates()
    assert {row.group for row in found.by_group} == {"big", "middle", "small"}
    for row in found.by_group:
        mine = row.group == GROUPS
        told = {"sample_weight": weight[mine], "classes": [0, 1, 2]}
        alone = evaluate(Y[mine], P[mine], **told, **QUICK)
        assert row.n_rows == alone.n_rows == (weight[mine] > 0).sum()
        assert row.estimates == {name: getattr(alone, name) for name in row.estimates}
        test = calibration_test(Y[mine], P[mine], **told)
        assert row.p_value == pytest.approx(test.p_value, abs=0.1)
        assert row.excess == pytest.approx(test.statistic - test.null_mean, abs=0.02)
    plain = found.to_dict()["by_group"]
    assert (plain["worst"], plain["rows"][0]["group"]) == (found.by_group.worst,) * 2
    p_values = np.array([row.p_value for row in found.by_group])
    assert [row.adjusted_p_value for row in found.by_group] == holm(p_values).tolist()


def test_the_worst_group_is_the_one_that_is_wrong_beyond_chance():
    bold = P**3 / (P**3).sum(axis=1, keepdims=True)
    mixed = np.where((GROUPS == "middle")[:, None], bold, P)
    table = evaluate(LABELS, mixed, groups=GROUPS, **QUICK).by_group
    assert table.worst == "middle"
    assert table.rows[0].adjusted_p_value < 0.05 < table.rows[1].adjusted_p_value
    assert [row.has_few_rows for row in table] == [False, False, True]
    assert "few rows" in str(table).splitlines()[3]
    assert "'middle'" in str(evaluate(LABELS, mixed, groups=GROUPS, **QUICK))


def test_two_classes_are_judged_by_the_positive_one_and_groups_are_numbers():
    table = evaluate(LABELS == 1, P[:, 1], groups=np.arange(900) % 2, n_resamples=0).by_group
    assert table.metric == "positive_ece"
    assert {type(row.group) for row in table} == {int}
    assert np.isnan(table.rows[0].p_value)
    assert "few" not in str(table)
    many = evaluate(Y, P, groups=np.arange(900) // 30, n_resamples=0).by_group
    assert "and 10 more: to_dict() has all" in str(many)


@pytest.mark.parametrize(
    ("groups", "kind", "match"),
    [
        (GROUPS[:5], errors.ShapeError, r"groups have shape \(5,\), for 900 rows"),
        ([None, *GROUPS[1:]], errors.LabelError, r"groups\[0\] is None.*'unknown'"),
    ],
)
def test_bad_groups_are_refused(groups, kind, match):
    with pytest.raises(kind, match=match):
        evaluate(Y, P, groups=groups)


def test_chunks_with_groups_are_refused():
    dask = pytest.importorskip("dask.array")
    lazy = dask.from_array(P, chunks=(300, 3))
    with pytest.raises(errors.ContainerError, match="evaluate the rows of each group"):
        evaluate(dask.from_array(Y, chunks=300), lazy, classes=[0, 1, 2], groups=GROUPS)
