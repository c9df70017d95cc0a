"""A fit for each group: what it is made of, its weights, its promises and its refusals."""

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import calibrant
from calibrant import (
    CalibratedClassifier,
    GroupedCalibrator,
    StructuredScaling,
    TemperatureScaling,
    errors,
    model_file,
)
from calibrant._calibrators import grouped as source
from calibrant._gate import check_batch
from conftest import refuses, simulate
from export.backends import run_numpy
from export.cases import assert_same

SIZES = (40, 100, 500)


@cache
def grouped_rows(n_classes=3, seed=0, spread=0.4, sizes=SIZES):
    """Scores, labels, and groups whose labels have a temperature and a bias of their own."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    z = 2.0 * rng.normal(size=(len(codes), n_classes))
    slope = np.exp(spread * rng.normal(size=len(sizes)))
    bias = spread * rng.normal(size=(len(sizes), n_classes))
    own = np.exp(slope[codes, None] * z + bias[codes])
    own /= own.sum(axis=1, keepdims=True)
    y = (own.cumsum(axis=1) > rng.uniform(size=(len(codes), 1))).argmax(axis=1)
    scores = np.exp(1.6 * z)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores, y, np.array(["north", "east", "south", *map(str, range(99))])[codes], own


@cache
def fit(**parameters):
    """Return a fit; do not change it."""
    scores, y, groups, _ = grouped_rows()
    return GroupedCalibrator(StructuredScaling(), **parameters).fit(scores, y, groups=groups)


def loss(probabilities, own):
    """Expected NLL."""
    return -float((own * np.log(probabilities)).sum(axis=1).mean())


def test_groups_that_differ_gain():
    scores, y, groups, own = grouped_rows()
    grouped = fit()
    pooled = StructuredScaling().fit(scores, y).predict_proba(scores)
    assert loss(grouped.predict_proba(scores, groups=groups), own) < 0.99 * loss(pooled, own)
    assert grouped.groups_.tolist() == ["east", "north", "south"]
    np.testing.assert_allclose(grouped.weights_.sum(axis=1), 1.0)
    assert grouped.weights_[:2, 2].tolist() == [0.0, 0.0]  # too few rows for a fit of their own
    assert grouped.solver_report_.converged


@pytest.mark.parametrize("seed", range(3))
def test_groups_that_do_not_differ_lose_next_to_nothing(seed):
    scores, y, groups, own = grouped_rows(seed=seed, spread=0.0, sizes=(50,) * 8)
    grouped = GroupedCalibrator(StructuredScaling()).fit(scores, y, groups=groups)
    pooled = StructuredScaling().fit(scores, y).predict_proba(scores)
    assert loss(grouped.predict_proba(scores, groups=groups), own) <= 1.002 * loss(pooled, own)


def test_other_groups_and_small_ones_get_the_fit_of_all():
    scores, y, groups, _ = grouped_rows()
    groups = groups.copy()
    groups[:3] = "tiny"
    grouped = GroupedCalibrator(StructuredScaling()).fit(scores, y, groups=groups)
    pooled = StructuredScaling().fit(scores, y).predict_proba(scores)
    assert np.array_equal(grouped.predict_proba(scores, groups=["tiny"] * len(y)), pooled)
    names = ["north", *["elsewhere"] * (len(y) - 1)]
    assert np.array_equal(grouped.predict_proba(scores, groups=names)[1:], pooled[1:])
    with pytest.warns(errors.CalibrantWarning):
        grouped.predict_proba(scores[:1], groups=["elsewhere"])


def test_weights_are_those_of_a_general_purpose_solver():
    scores, y, groups, _ = grouped_rows()
    batch = check_batch(scores, y)
    codes = np.unique(groups, return_inverse=True)[1]
    dealt = source._deal(StructuredScaling(), batch, codes, 5)
    weights, report = source._mix(StructuredScaling(), dealt, 4.0, 300, 2.0)
    own = [np.column_stack([g.of_labels(g.pooled.scores), g.changed(4.0)]) for g in dealt]
    all_weight = np.concatenate([g.batch.weight for g in dealt])

    def solve(own, weight, prior):
        def objective(free):
            w = np.exp(np.append(free, 0.0) - np.logaddexp.reduce(np.append(free, 0.0)))
            return -weight @ np.log(own @ w) - prior @ np.log(np.maximum(w, 1e-300))

        found = minimize(objective, np.zeros(own.shape[1] - 1), method="Nelder-Mead", tol=1e-10)
        w = np.exp(np.append(found.x, 0.0))
        return w / w.sum()

    shares = solve(np.vstack(own), all_weight, np.array([2.0, 0.0]))
    for g in (0, 1):  # the third has a fit of its own, too
        expected = solve(own[g], dealt[g].batch.weight, 2.0 * shares)
        np.testing.assert_allclose(weights[g, :2], expected, atol=2e-3)
    assert report.violation <= report.tolerance


@pytest.mark.parametrize("name", ["north", "south", None])
def test_the_fit_of_one_group_is_a_calibrator(name):
    scores = grouped_rows()[0]
    one = fit().for_group(name)
    groups = ["north", *[name or "elsewhere"] * len(scores)]
    both = fit().predict_proba(np.vstack([scores[:1], scores]), groups=groups)[1:]
    assert np.array_equal(one.predict_proba(scores), both)
    assert np.array_equal(model_file.loads(model_file.dumps(one)).predict_proba(scores), both)


FORMS = {
    "text": lambda codes: np.array(["b", "a", "c"])[codes],
    "objects": lambda codes: np.array(["b", "a", "c"], dtype=object)[codes],
    "numbers": lambda codes: codes - 1,
    "series": lambda codes: pd.Series(codes, index=np.arange(len(codes))[::-1]),
    "categorical": lambda codes: pd.Categorical.from_codes(codes, ["b", "a", "c", "unused"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_groups_come_in_any_form_and_files_keep_them(form):
    scores, y, groups, _ = grouped_rows()
    codes = np.unique(groups, return_inverse=True)[1]
    given = FORMS[form](codes)
    calibrator = clone(fit()).fit(scores, y, groups=given)
    found = calibrator.predict_proba(scores, groups=given)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    data = model_file.dumps(calibrator)
    loaded = model_file.loads(data)
    assert np.array_equal(loaded.predict_proba(scores, groups=given), found)
    assert loaded.groups_.dtype == calibrator.groups_.dtype
    assert model_file.dumps(loaded) == data


def test_rows_in_any_order_on_threads_and_repeated_as_weights():
    scores, y, groups, _ = grouped_rows()
    calibrator = fit()
    order = np.random.default_rng(3).permutation(len(y))
    again = clone(calibrator).fit(scores[order], y[order], groups=groups[order])
    expected = calibrator.predict_proba(scores, groups=groups)
    assert np.array_equal(again.predict_proba(scores, groups=groups), expected)
    threads = clone(calibrator).set_params(n_jobs=2).fit(scores, y, groups=groups)
    assert np.array_equal(threads.predict_proba(scores, groups=groups), expected)
    assert np.array_equal(threads.predict(scores, groups=groups), expected.argmax(axis=1))
    twice = np.arange(len(y)).repeat(np.where(np.arange(len(y)) % 3 == 0, 2, 1))
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    one = clone(calibrator).fit(scores, y, weight, groups=groups)
    two = clone(calibrator).fit(scores[twice], y[twice], groups=groups[twice])
    np.testing.assert_allclose(
        one.predict_proba(scores, groups=groups),
        two.predict_proba(scores, groups=groups),
        atol=1e-6,
    )


def test_rows_without_weight_are_not_there():
    scores, y, groups, _ = grouped_rows()
    weight = (groups != "north").astype(float)
    calibrator = clone(fit()).fit(scores, y, weight, groups=groups)
    assert calibrator.groups_.tolist() == ["east", "south"]
    used = groups != "north"
    again = clone(calibrator).fit(scores[used], y[used], groups=groups[used])
    expected = again.predict_proba(scores, groups=groups)
    assert np.array_equal(calibrator.predict_proba(scores, groups=groups), expected)


SCORES, LABELS = simulate(30, 3, 0)
GOOD = np.repeat(["a", "b"], 15)
BAD_GROUPS = {
    "none": (None, errors.ShapeError, None),
    "short": (GOOD[:9], errors.ShapeError, None),
    "columns": (np.tile(GOOD, (2, 1)).T, errors.ShapeError, None),
    "scalar": ("a", errors.ShapeError, None),
    "nan": ([np.nan, *[1.0] * 29], errors.LabelError, 0),
    "missing": ([None, *GOOD[1:]], errors.LabelError, 0),
    "mixed": (np.array([1, *GOOD[1:]], object), errors.LabelError, None),
    "fractions": (np.linspace(0, 1, 30), errors.LabelError, 1),
}
quiet = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


@quiet
@pytest.mark.parametrize("case", BAD_GROUPS)
def test_bad_groups_are_refused(case):
    groups, error, row = BAD_GROUPS[case]
    calibrator = GroupedCalibrator(TemperatureScaling())
    fitted = clone(calibrator).fit(SCORES, LABELS, groups=GOOD)
    for call in (
        lambda: calibrator.fit(SCORES, LABELS, groups=groups),
        lambda: calibrator.fit(SCORES, LABELS, np.ones(30), groups=groups),
        lambda: fitted.predict_proba(SCORES, groups=groups),
        lambda: fitted.predict(SCORES, groups=groups),
    ):
        with pytest.raises(error, match="groups") as caught:
            call()
        assert caught.value.row == row


@quiet
def test_what_else_is_refused():
    calibrator = GroupedCalibrator(TemperatureScaling())
    for own in (calibrant.Chain, calibrant.Mixture):
        for parts in ([TemperatureScaling(), calibrator], [calibrant.Mixture([calibrator])]):
            with refuses("calibrators"):
                own(parts).fit(SCORES, LABELS)
        outside = GroupedCalibrator(own([TemperatureScaling()] * 2))
        outside.fit(*simulate(300, 3, 0), groups=np.tile(GOOD, 10))
        assert outside.groups_.tolist() == ["a", "b"]
    for inner in (GroupedCalibrator(), "ts"):
        with refuses("calibrator"):
            GroupedCalibrator(inner).fit(SCORES, LABELS, groups=GOOD)
    with pytest.raises(errors.LabelError, match="'west'"):
        fit().for_group("west")
    with pytest.raises(errors.LabelError):
        fit().predict_proba(SCORES, groups=np.zeros(30, int))
    with pytest.raises(errors.ParameterError, match="for_group"):
        fit().map_(SCORES)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def _classified():
    rng = np.random.default_rng(7)
    X, groups = rng.normal(size=(1200, 3)), np.tile(["a", "b"], 600)
    y = (X[:, 0] * np.where(groups == "a", 4.0, 0.3) + rng.logistic(size=1200) > 0).astype(int)
    return X, y, groups


@pytest.mark.usefixtures("routing")
def test_a_pipeline_routes_groups():
    X, y, groups = _classified()
    scores = GaussianNB().fit(X, y).predict_proba(X)
    inner = GroupedCalibrator(StructuredScaling())
    pipe = make_pipeline(FunctionTransformer(), clone(inner))
    expected = inner.fit(scores, y, groups=groups).predict_proba(scores, groups=groups)
    pipe.fit(scores, y, groups=groups, sample_weight=np.ones(1200))
    assert np.array_equal(pipe.predict_proba(scores, groups=groups), expected)
    assert np.array_equal(pipe.predict(scores, groups=groups), inner.predict(scores, groups))
    with pytest.raises(errors.ShapeError):
        pipe.predict_proba(scores)
    silent = clone(inner).set_fit_request(groups=False, sample_weight=False)
    with pytest.raises(errors.ShapeError):
        make_pipeline(FunctionTransformer(), silent).fit(scores, y)


@pytest.mark.parametrize(
    ("routes", "ensemble"), [(False, "auto"), (True, "auto"), (True, True), (False, False)]
)
def test_a_classifier_passes_groups_on(routes, ensemble):
    X, y, groups = _classified()
    with sklearn.config_context(enable_metadata_routing=routes):
        grouped = GroupedCalibrator(StructuredScaling())
        base = GaussianNB().set_fit_request(sample_weight=True) if routes else GaussianNB()
        model = CalibratedClassifier(base, grouped, cv=2, ensemble=ensemble)
        model.fit(X, y, groups=groups)
        found = model.predict_proba(X, groups=groups)
        assert model.calibrated_classifiers_[0].calibrator.groups_.tolist() == ["a", "b"]
        with pytest.warns(errors.CalibrantWarning):
            other = model.predict_proba(X, groups=np.repeat("c", 1200))
        own = -np.log(found[np.arange(1200), y]).mean()
        assert own < -np.log(other[np.arange(1200), y]).mean() - 0.001
        assert model.predict(X, groups=groups).shape == (1200,)
        with pytest.raises(errors.ShapeError):
            model.predict_proba(X)
        with pytest.raises(errors.ShapeError):
            clone(model).fit(X, y)
        weighted = clone(model).fit(X, y, sample_weight=np.ones(1200), groups=groups)
        np.testing.assert_allclose(weighted.predict_proba(X, groups=groups), found)


def test_a_graph_is_made_of_one_group():
    scores = grouped_rows()[0]
    with pytest.raises(errors.ExportError, match="for_group"):
        run_numpy(fit(), scores, "probabilities")
    one = fit().for_group("south")
    assert_same(run_numpy(one, scores, "probabilities"), one, scores, "float64")


def test_chunks_are_refused_with_a_remedy():
    dask = pytest.importorskip("dask.array")
    lazy, y, groups = dask.from_array(SCORES), dask.from_array(LABELS), dask.from_array(GOOD)
    with pytest.raises(errors.ContainerError):
        GroupedCalibrator().fit(lazy, y, groups=groups)
    with pytest.raises(errors.ContainerError):
        fit().predict_proba(lazy, groups=groups)
    one = fit().for_group("north")
    np.testing.assert_allclose(one.predict_proba(lazy).compute(), one.predict_proba(SCORES))


@pytest.mark.parametrize(
    ("name", "change"), [("groups_", np.flip), ("groups_", np.unique), ("weights_", np.unique)]
)
def test_files_that_lie_about_groups_are_refused(name, change):
    calibrator = copy.deepcopy(fit())
    wrong = change(getattr(calibrator, name))[: 3 if change is np.flip else 2]
    setattr(calibrator, name, wrong)
    with pytest.raises(errors.ModelFileError):
        model_file.dumps(calibrator)
