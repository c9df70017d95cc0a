import warnings

import numpy as np
import pytest
from sklearn.base import clone

from calibrant import AutoCalibrator, MonotoneSpline, StructuredScaling, TemperatureScaling
from calibrant._calibrators import auto_search
from calibrant._calibrators.auto_search import NAMES, NAMES_OF_TWO
from calibrant._gate import check_batch
from calibrant._maps.base import lift
from calibrant.errors import MissingClassWarning
from calibrant.metrics import negative_log_likelihood
from calibrant.model_file import dumps, loads
from calibrators.catalogue import quiet
from conftest import load_real, real_files, refuses, simulate

pytestmark = quiet


@pytest.fixture(scope="module")
def fitted():
    p, y = simulate(500, 4)
    return AutoCalibrator().fit(p, y), p, y


def test_the_report_has_every_candidate_and_says_why(fitted):
    report = fitted[0].report_
    assert [c.path for c in report.candidates] == list(NAMES)
    assert sum(c.weight for c in report.candidates) == pytest.approx(1)
    assert report.candidates[0].difference == 0.0
    assert str(report).count("\n") == len(NAMES) + 1
    assert all(c.seconds > 0 for c in report.candidates)


def test_a_class_without_a_label_warns_once_and_becomes_rare():
    p, y = simulate(600, 4)
    keep = y != 1
    with pytest.warns(MissingClassWarning) as told:
        auto = AutoCalibrator(classes=np.arange(4)).fit(p[keep], y[keep])
    assert sum(w.category is MissingClassWarning for w in told) == 1
    assert auto.predict_proba(p[keep])[:, 1].mean() < 0.5 * p[keep, 1].mean()
    with warnings.catch_warnings():  # where no part knows classes, there is nothing to say
        warnings.simplefilter("error", MissingClassWarning)
        AutoCalibrator(candidates=["scir"], classes=np.arange(4)).fit(p[keep], y[keep])


def test_held_out_scores_are_held_out(fitted):
    """The candidate's reported NLL is that of fits without the row's fold, by hand."""
    auto, p, y = fitted
    folds = check_batch(p, y).deal(5)[1]
    own = np.empty(len(y))
    for fold in range(5):
        out = folds == fold
        model = TemperatureScaling().fit(p[~out], y[~out])
        own[out] = model.predict_proba(p[out])[np.arange(out.sum()), y[out]]
    assert auto.report_.candidates[0].nll == pytest.approx(-np.mean(np.log(own)), rel=1e-12)


def two_bent(n, seed=0):
    """Two classes, one of which is over-confident, the other honest."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2.5, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-np.where(z > 0, 0.3 * z, z)))).astype(int)
    p = 1 / (1 + np.exp(-z))
    return np.column_stack([1 - p, p]), y


def test_two_classes_are_held_to_two_class():
    (p, y), (new, labels) = two_bent(600), two_bent(20_000, 1)
    auto = AutoCalibrator().fit(p, y)
    assert [one.path for one in auto.report_.candidates] == [*NAMES_OF_TWO]
    assert auto.report_.home == "two-class"
    assert "two-class" in auto.report_.why.partition(";")[2]
    assert auto.finish_ is None
    assert auto.finish_share_ == 0.0
    again = loads(dumps(auto))
    assert again.report_ == auto.report_
    assert again.predict_proba(new).tobytes() == auto.predict_proba(new).tobytes()
    loss = negative_log_likelihood(labels, auto.predict_proba(new))
    alone = TemperatureScaling().fit(p, y).predict_proba(new)
    assert loss < 0.97 * negative_log_likelihood(labels, alone)
    # What is asked for is what is tried; and more classes have what they had.
    asked = AutoCalibrator(candidates=("structured",)).fit(p, y).report_
    assert [one.path for one in asked.candidates] == ["ts", "structured"]
    assert asked.home == "ts"
    assert AutoCalibrator().fit(*simulate(300, 3)).report_.home == "ts"


def applied(stages, rows):
    for stage in stages:
        rows = stage.predict_proba(rows)
    return rows


def test_the_result_is_the_mixture_of_its_paths_and_what_comes_after_it(fitted):
    auto, p, _ = fitted
    pairs = zip(auto.weights_, auto.paths_, strict=True)
    mixture = sum(weight * applied(path, p) for weight, path in pairs)
    mixture = lift(mixture, auto.floor_, sums_to_one=True, given=p)
    share = auto.finish_share_
    assert 0.1 < share < 1.0
    by_hand = (1.0 - share) * mixture + share * applied(auto.finish_, mixture)
    np.testing.assert_allclose(auto.predict_proba(p), by_hand, atol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_what_no_row_told_of_is_not_taken_for_impossible(n_classes):
    """Mistakes at log-odds of 2 tell nothing of rows at 600, which were all right."""
    y = np.arange(400) % n_classes
    z = 600.0 * np.eye(n_classes)[y]
    z[:40] /= 300.0
    y[:5] = (y[:5] + 1) % n_classes
    auto = AutoCalibrator(scores="logits").fit(z, y)
    least = auto.predict_proba(600.0 * np.eye(n_classes)).min()
    assert 0.1 * 0.01 / 400 / n_classes < least < 1e-3


def test_what_comes_after_the_mixture_is_fitted_to_held_out_outputs_of_it():
    p, y = simulate(800, 4)
    p = 0.5 * p + 0.125  # no temperature undoes this
    auto = AutoCalibrator(candidates=["scir"], caution=0).fit(p, y)
    folds = check_batch(p, y).deal(5)[1]
    rows = np.zeros_like(p)
    for fold in range(5):
        out = folds == fold
        for weight, (part,) in zip(auto.weights_, auto.paths_, strict=True):
            rows[out] += weight * clone(part).fit(p[~out], y[~out]).predict_proba(p[out])
    (spline,) = auto.finish_  # no class is told from another, as no candidate does
    by_hand = MonotoneSpline(strength=1.0).fit(rows, y).predict_proba(rows)
    np.testing.assert_allclose(spline.predict_proba(rows), by_hand, atol=1e-5)
    loss = negative_log_likelihood(y, rows) * len(y)
    plain = auto.report_.candidates[0].weight
    assert auto.finish_share_ == pytest.approx((1.0 - plain) * loss / (loss + 15.0), rel=1e-6)


def test_without_caution_the_mixture_is_no_worse_than_any_candidate_on_held_out_rows():
    report = AutoCalibrator(prior_rows=0, caution=0).fit(*simulate(500, 4)).report_
    assert report.mixture_nll <= min(c.nll for c in report.candidates) + 1e-3  # small weights go


def test_caution_stays_with_temperature_scaling():
    p, y = simulate(40, 4)
    auto = AutoCalibrator(prior_rows=0, caution=1e9).fit(p, y)
    assert weights_of(auto)["ts"] + weights_of(auto)["identity"] > 0.99  # scores keep a share, too
    assert "temperature scaling" in auto.report_.why


def test_scores_that_are_honest_are_left_as_they_are():
    """Nothing is lost by calibrating them, but for a few nats in all."""
    rng = np.random.default_rng(0)
    for n_rows in (200, 2000):
        p = rng.dirichlet(np.full(4, 0.5), size=n_rows)
        y = (p.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
        q = rng.dirichlet(np.full(4, 0.5), size=20_000)
        after = AutoCalibrator(classes=range(4)).fit(p, y).predict_proba(q)
        divergence = np.sum(q * (np.log(q) - np.log(np.maximum(after, 1e-300))), axis=1).mean()
        assert divergence < 5.0 / n_rows


def weights_of(auto):
    return {c.path: c.weight for c in auto.report_.candidates}


def test_scores_that_nothing_proves_wrong_keep_a_share():
    """And none once they are clearly wrong."""
    p, y = simulate(150, 4)
    honest = np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)
    shares = [weights_of(AutoCalibrator().fit(scores, y))["identity"] for scores in (honest, p)]
    assert shares[0] > 0.4
    assert shares[1] < 0.1
    free = AutoCalibrator(caution=0).fit(honest, y)
    assert weights_of(free)["identity"] < shares[0]


def test_a_set_without_mistakes_is_as_sharp_as_by_temperature_scaling():
    """Its whole loss is no clear gain; with one mistake the scores have their share again."""
    rng = np.random.default_rng(0)
    top, off = rng.integers(0, 3, 3600), rng.exponential(0.002, 3600)
    p = np.repeat(off[:, None] / 2.0, 3, axis=1)
    p[np.arange(3600), top] = 1.0 - off
    auto = AutoCalibrator(classes=range(3)).fit(p[:600], top[:600])
    ts = TemperatureScaling(classes=range(3)).fit(p[:600], top[:600])
    assert weights_of(auto)["identity"] < 0.15
    loss, other = (negative_log_likelihood(top, each.predict_proba(p)) for each in (auto, ts))
    assert loss < 1.5 * other  # it was three times as large
    y = np.where(np.arange(600) == off[:600].argmax(), (top[:600] + 1) % 3, top[:600])
    assert weights_of(AutoCalibrator(classes=range(3)).fit(p[:600], y))["identity"] > 0.2
    even = np.vstack([p[:600], np.full((1, 3), 1 / 3)])  # which has no largest score
    assert weights_of(AutoCalibrator().fit(even, np.append(top[:600], 0)))["identity"] > 0.2


def test_of_many_classes_what_costs_most_is_left_out():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(101), 202)
    report = AutoCalibrator(cv=2).fit(p, np.arange(202) % 101).report_
    assert {c.path for c in report.candidates} == set(NAMES) - {"structured-loose"}


@pytest.fixture
def few_are_judged(monkeypatch):
    monkeypatch.setattr(auto_search, "MOST_CELLS_JUDGED", 1)
    monkeypatch.setattr(auto_search, "LEAST_ROWS_JUDGED", 1000)


@pytest.mark.usefixtures("few_are_judged")
def test_of_many_rows_some_are_judged_and_all_are_fitted():
    p, y = simulate(3000, 4)
    paths = ["na-fir", "spline", "structured"]
    auto = AutoCalibrator(candidates=paths, cv=3).fit(p, y)
    assert auto.report_.n_rows == 1000
    used = [c.path for c in auto.report_.candidates if c.weight]
    firsts = dict(zip(used, (first for first, *_ in auto.paths_), strict=True))
    structured = StructuredScaling(tol=auto_search.TOLERANCE).fit(p, y)
    alone = {"ts": TemperatureScaling().fit(p, y), "structured": structured}
    known = alone.keys() & firsts.keys()
    assert known
    for path in known:
        wanted = alone[path].predict_proba(p)
        np.testing.assert_allclose(firsts[path].predict_proba(p), wanted, rtol=1e-7)
    order = np.random.default_rng(0).permutation(len(y))
    again = AutoCalibrator(candidates=paths, cv=3).fit(p[order], y[order])
    np.testing.assert_array_equal(auto.predict_proba(p), again.predict_proba(p))


def test_candidates_can_be_chosen_and_are_checked(fitted):
    _, p, y = fitted
    auto = AutoCalibrator(candidates=["spline"]).fit(p, y)
    assert [c.path for c in auto.report_.candidates] == ["ts", "spline"]
    for wrong in (["nothing"], ["ts > spline"], 3, [["ts"]], "ts"):
        with refuses("candidates"):
            AutoCalibrator(candidates=wrong).fit(p, y)


@pytest.mark.parametrize("name", real_files("hpc", "sst5", "r52_nb"))
def test_real_files_are_not_materially_worse_than_temperature_scaling(name):
    data = load_real(name)
    (p, y), (q, t) = data["val"], data["test"]
    auto = negative_log_likelihood(t, AutoCalibrator().fit(p, y).predict_proba(q))
    ts = negative_log_likelihood(t, TemperatureScaling().fit(p, y).predict_proba(q))
    assert auto <= 1.02 * ts


def test_progress_is_said_if_asked_for(capsys):
    p, y = simulate(200, 3)
    AutoCalibrator(candidates=["spline"], cv=2, verbose=True).fit(p, y)
    steps = ["1 of 4, ts", "2 of 4, spline", "3 of 4, mixture", "4 of 4, finish"]
    assert capsys.readouterr().err.splitlines() == [f"AutoCalibrator: {step}" for step in steps]
