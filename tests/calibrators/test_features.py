"""Probabilities from scores and from features of the same rows."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from calibrant import (
    AutoCalibrator,
    CalibratedClassifier,
    Chain,
    FeatureCalibrator,
    FlattenedIsotonic,
    GroupedCalibrator,
    MaskedCalibrator,
    Mixture,
    TemperatureScaling,
    errors,
    export,
    model_file,
)
from calibrant._calibrators.composition import out_of_fold
from calibrant._calibrators.feature_search import FeatureSearch, in_order
from calibrant._gate import check_batch, encode_columns, learn_columns, read_columns
from calibrant._maps.features import BoostedTrees
from calibrant._solvers.feature_learners import Ridge
from calibrant.metrics import negative_log_likelihood
from conftest import refuses

CITIES = np.array(["north", "east", "south", "west"], dtype=object)


def draw(n_rows=600, n_classes=3, seed=0):
    """Scores that know nothing of age and city, which the labels depend on."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (n_rows, n_classes))
    scores = np.exp(1.4 * z)
    age, city = rng.uniform(20, 80, n_rows), rng.choice(CITIES, n_rows)
    z[:, 0] += 2.0 * (age > 50) - 1.0
    z[:, -1] += 1.5 * (city == "west")
    p = np.exp(z)
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    features = np.column_stack([age.astype(object), city])
    return scores / scores.sum(axis=1, keepdims=True), y, features


def fit(n_rows=400, n_classes=3, seed=0, **parameters):
    scores, y, features = draw(n_rows, n_classes, seed)
    return FeatureCalibrator(cv=3, **parameters).fit(scores, y, features=features)


def loss(calibrator, rows):
    scores, y, features = rows
    return negative_log_likelihood(y, calibrator.predict_proba(scores, features=features))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_that_tell_are_used(n_classes):
    rows, new = draw(800, n_classes), draw(2000, n_classes, seed=1)
    alone = AutoCalibrator().fit(*rows[:2])
    both = FeatureCalibrator().fit(*rows[:2], features=rows[2])
    least = negative_log_likelihood(new[1], alone.predict_proba(new[0]))
    assert loss(both, new) < 0.95 * least
    assert both.share_ > 0.5
    report = both.report_
    assert report.nll < report.score_nll
    assert {one.feature for one in report.importances[:2]} == {"x0", "x1"}


def test_noise_is_left_alone():
    scores, y, _ = draw(500)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        found = FeatureCalibrator().fit(scores, y, features=rng.normal(size=(500, 10)))
        own = found.predict_proba(scores, features=rng.normal(size=(500, 10)))
        away = np.abs(own - found.calibrator_.predict_proba(scores)).mean()
        assert away < 0.02


def test_one_class_alone_leaves_the_scores():
    scores, y, features = draw(300, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = FeatureCalibrator(classes=[0, 1]).fit(scores, 0 * y, features=features)
    assert found.share_ == 0.0
    assert not found.report_.learners
    rows = found.predict_proba(scores, features=features)
    assert rows.tobytes() == found.calibrator_.predict_proba(scores).tobytes()


def test_the_order_of_rows_and_the_number_of_threads_change_no_bit():
    scores, y, features = draw()
    first = FeatureCalibrator(cv=3).fit(scores, y, features=features)
    order = np.random.default_rng(1).permutation(len(y))
    again = FeatureCalibrator(cv=3, n_jobs=2)
    again.fit(scores[order], y[order], features=features[order])
    expected = first.predict_proba(scores, features=features)
    assert expected.tobytes() == again.predict_proba(scores, features=features).tobytes()


def test_rows_of_weight_zero_are_not_there():
    scores, y, features = draw(500)
    weight = (np.arange(500) < 400).astype(float)
    some = FeatureCalibrator(cv=3).fit(scores[:400], y[:400], features=features[:400])
    all_ = FeatureCalibrator(cv=3).fit(scores, y, weight, features=features)
    rows = scores[400:], features[400:]
    assert some.predict_proba(*rows).tobytes() == all_.predict_proba(*rows).tobytes()


def test_a_data_frame_is_read_by_its_names():
    scores, y, features = draw()
    frame = pd.DataFrame(
        {"age": features[:, 0].astype(float), "city": pd.Categorical(features[:, 1])}
    )
    frame["is_new"] = frame["age"] > 40
    found = FeatureCalibrator(cv=3).fit(scores, y, features=frame)
    assert [column.name for column in found.columns_] == ["age", "city", "is_new"]
    assert found.columns_[1].categories == sorted(CITIES)
    turned = frame.iloc[:, ::-1].assign(other=1.0)
    expected = found.predict_proba(scores, features=frame)
    assert expected.tobytes() == found.predict_proba(scores, features=turned).tobytes()
    with pytest.raises(errors.ColumnNameError):
        found.predict_proba(scores, features=frame.drop(columns="city"))
    polars = pytest.importorskip("polars")
    other = polars.DataFrame({name: frame[name].to_numpy() for name in frame if name != "city"})
    other = other.with_columns(polars.Series("city", features[:, 1].tolist()))
    assert expected.tobytes() == found.predict_proba(scores, features=other).tobytes()


def test_missing_values_and_new_categories_are_read():
    """Also in a column that the rows of a fold say nothing of."""
    scores, y, features = draw(800)
    features[::5, 0], features[::7, 1] = None, None
    sparse = np.column_stack([features, np.full(800, np.nan)])
    sparse[7, 2] = 1.0
    found = FeatureCalibrator(cv=3).fit(scores, y, features=sparse)
    new = [[None, "nowhere", 1.0], [float("nan"), None, None]]
    assert np.isfinite(found.predict_proba(scores[:2], features=new)).all()


def test_few_rows_and_none():
    scores, _, features = draw(300, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n_rows in (2, 5, 20):
            own = np.arange(n_rows) % 2
            found = FeatureCalibrator().fit(scores[:n_rows], own, features=features[:n_rows])
            assert found.share_ == 0.0
    for none in (np.empty((0, 2)), features[:0], pd.DataFrame(features[:0])):
        assert fit(300, 2).predict_proba(scores[:0], features=none).shape == (0, 2)


@pytest.mark.parametrize(
    ("column", "is_number"),
    [
        (pd.array([1, None] * 150, dtype="Int64"), True),
        (pd.array([True, None] * 150, dtype="boolean"), True),
        (pd.array(["a", None] * 150, dtype="string"), False),
        (pd.Categorical(["a", None] * 150), False),
    ],
)
def test_columns_of_every_kind_are_read(column, is_number):
    scores, y, _ = draw(300)
    table = pd.DataFrame({"column": column})
    found = FeatureCalibrator(cv=3).fit(scores, y, features=table)
    assert found.columns_[0].is_number is is_number
    assert set(found.columns_[0].categories) <= {"a", "b"}
    assert np.isfinite(found.predict_proba(scores, features=table)).all()


def test_rare_categories_are_one_and_columns_without_values_are_left_out():
    scores, y, features = draw(400)
    features[:9, 1] = "rare"
    empty = np.column_stack([features, np.full(400, None)])
    with pytest.warns(errors.CalibrantWarning, match="x2"):
        found = FeatureCalibrator(cv=3).fit(scores, y, features=empty)
    assert "rare" not in found.columns_[1].categories
    assert [column.width for column in found.columns_] == [1, 4, 0]
    new = [[30, "rare", None], [30, "unknown", None]]
    both = found.predict_proba(scores[:1].repeat(2, 0), features=new)
    assert both[0].tobytes() == both[1].tobytes()


TWICE = pd.DataFrame(np.zeros((400, 2)), columns=["a", "a"])
UNREADABLE = {
    "none": (None, errors.ShapeError),
    "short": (np.zeros((399, 2)), errors.ShapeError),
    "deep": (np.zeros((400, 1, 1)), errors.ShapeError),
    "empty": (np.zeros((400, 0)), errors.ShapeError),
    "infinite": (np.array([[1.0], [np.inf]] * 200), errors.NonFiniteError),
    "large": ([[10**400]] * 400, errors.NonFiniteError),
    "complex": (np.zeros((400, 2), dtype=complex), errors.ContainerError),
    "mapping": ({"a": 1}, errors.ShapeError),
    "iterator": (iter([1]), errors.ContainerError),
    "a name twice": (TWICE, errors.ColumnNameError),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_features_that_cannot_be_read_are_refused(case):
    (scores, y, _), (features, error) = draw(400), UNREADABLE[case]
    with pytest.raises(error):
        FeatureCalibrator().fit(scores, y, features=features)


def test_predictions_refuse_features_of_another_kind():
    found, (scores, _, features) = fit(), draw(400)
    of_text = features.astype(str)
    for given, error in (
        (None, errors.ShapeError),
        (features[:, ::-1], errors.ContainerError),
        (np.ones((400, 3)), errors.ShapeError),
        (np.ones((400, 2)), errors.ContainerError),
        (of_text, errors.ContainerError),
    ):
        with pytest.raises(error):
            found.predict_proba(scores, features=given)


@pytest.mark.parametrize(
    "parameters",
    [
        {"calibrator": GroupedCalibrator()},
        {"calibrator": "ts"},
        {"calibrator": MaskedCalibrator()},
        {"calibrator": FeatureCalibrator()},
        {"learner": TemperatureScaling},
        {"cv": 1},
    ],
)
def test_parameters_are_checked(parameters):
    scores, y, features = draw(200)
    with refuses(*parameters):
        FeatureCalibrator(**parameters).fit(scores, y, features=features)


@pytest.mark.parametrize("outer", [Chain, Mixture])
def test_what_passes_no_features_on_says_where_they_belong(outer):
    scores, y, features = draw(300)
    with refuses("calibrators"):
        outer([FeatureCalibrator(), TemperatureScaling()]).fit(scores, y)
    inside = outer([TemperatureScaling(), FlattenedIsotonic()])
    assert FeatureCalibrator(inside, cv=3).fit(scores, y, features=features).share_ > 0.0
    with refuses("calibrator"):
        GroupedCalibrator(FeatureCalibrator()).fit(scores, y, groups=np.zeros(300, int))
    with pytest.raises(errors.ContainerError):
        FeatureCalibrator().partial_fit(scores, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_map_is_its_formula(n_classes):
    found, (scores, _, features) = fit(600, n_classes), draw(7, n_classes, seed=3)
    own = found.calibrator_.predict_proba(scores)
    table = [[age, *(city == c for c in found.columns_[1].categories)] for age, city in features]
    logs = np.log(scores)
    first = logs[:, 1:] - logs[:, :1] if n_classes == 2 else logs - logs.mean(axis=1)[:, None]
    inputs = np.hstack([first, np.array(table, dtype=float)])
    parts = [np.maximum(own, 1e-12)]
    parts += [np.maximum(learner(inputs), 1e-4) for learner in (*found.trees_, *found.linear_)]
    expected = np.empty_like(own)
    for i in range(len(own)):
        powers = zip(parts, found.powers_, strict=True)
        pool = np.prod([part[i] ** power for part, power in powers], axis=0)
        mean = found.share_ * pool / sum(pool) + (1 - found.share_) * own[i]
        expected[i] = mean**found.sharpness_ / (mean**found.sharpness_).sum()
    new = found.predict_proba(scores, features=features)
    np.testing.assert_allclose(new, expected, rtol=1e-9)


def test_held_out_rows_of_auto_are_those_of_fits_without_them():
    """Fits without a fold, weights included, say about the same; fits to all rows are too sure."""
    scores, y, _ = draw(500)
    rows = in_order(check_batch(scores, y), np.zeros((500, 1)))
    search = FeatureSearch(rows, 5)
    search.fit_score(AutoCalibrator())
    literal = np.empty_like(search.score)
    for dealing in (0, 1):  # rows are few, and dealt twice
        own = search.dealing == dealing
        folds = search.folds[own] - search.folds[own].min()
        literal[own] = out_of_fold(AutoCalibrator(), search.judged.batch.take(own), folds)
    np.testing.assert_allclose(search.score.sum(axis=1), 1.0)
    assert abs(search.loss(search.score) - search.loss(literal)) < 0.01 * search.loss(literal)


def test_no_other_sharpness_is_better():
    scores, y, features = draw(600)
    rows = in_order(check_batch(scores, y), encode(features))
    search = FeatureSearch(rows, 3)
    search.fit_score(TemperatureScaling())
    search.fit_learners({"linear": Ridge()})
    choice = search.choose(20.0)
    learnt = [search.learnt["linear"]]
    mean = search.combine(replace(choice, sharpness=1.0), learnt, slice(None))
    price = 30.0 + 1000.0 / search.loss(mean)

    def value(s):
        power = mean**s
        return search.loss(power / power.sum(axis=1, keepdims=True)) + price * np.log(s) ** 2

    assert choice.sharpness != 1.0
    best = choice.sharpness ** (1.0 / choice.share)  # it is drawn to 1 as the share falls
    assert all(value(best) <= value(s) + 1e-6 for s in np.linspace(0.5, 2.0, 61))


@pytest.mark.parametrize("n_rows", [240, 1200])
def test_the_share_grows_with_what_is_gained_for_certain(n_rows):
    """Its literal formula, with the gain of every row and the standard error of their sum."""
    scores, y, features = draw(n_rows)
    search = FeatureSearch(in_order(check_batch(scores, y), encode(features)), 4)
    search.fit_score(TemperatureScaling())
    search.fit_learners({"linear": Ridge()})
    choice = search.choose(20.0)
    logs = np.log(np.stack([search.score, search.learnt["linear"]], axis=-1))
    labels = search.judged.batch.class_index

    def gains_of(power):
        """What the rows gain over the scores alone, raised to a power."""
        pool, alone = np.exp(logs @ choice.powers), np.exp(logs[:, :, 0] * power)
        both = [
            np.log((p / p.sum(axis=1, keepdims=True))[np.arange(len(p)), labels])
            for p in (pool, alone)
        ]
        return both[0] - both[1]

    gains = min((gains_of(power) for power in np.linspace(0.5, 2.0, 3001)), key=np.sum)
    n_dealings = len(labels) / n_rows
    gain = gains.sum() / n_dealings
    error = np.sqrt(n_rows) * gains.std()
    assert n_dealings == (2 if n_rows == 240 else 1)
    assert choice.share == pytest.approx(1 / (1 + (2.0 * error / gain) ** 3 + 4.0 / gain), rel=1e-3)


def test_few_rows_are_dealt_twice():
    """Each dealing has every row once, and no learner has seen the rows that it predicts."""
    scores, y, features = draw(120)
    search = FeatureSearch(in_order(check_batch(scores, y), encode(features)), 4)
    search.fit_learners({"linear": Ridge()})
    first, second = search.dealing == 0, search.dealing == 1
    assert first.sum() == second.sum() == search.n_rows == 120
    assert len(np.unique(search.folds[first])) == 4
    assert len(np.unique(search.folds[second])) == 5
    inputs = [np.sort(search.judged.inputs[own], axis=0) for own in (first, second)]
    np.testing.assert_array_equal(*inputs)
    others = search.judged.take(second & (search.folds != 6))
    expected = others.fit(Ridge())(search.judged.inputs[search.folds == 6])
    np.testing.assert_array_equal(search.learnt["linear"][search.folds == 6], expected)


def encode(features):
    given = read_columns(features, len(features))
    return encode_columns(given, learn_columns(given))


@pytest.mark.parametrize("present", [2, 3])
def test_classes_without_a_row_keep_a_probability(present):
    scores, y, features = draw(500, 4)
    y = np.minimum(y, present - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = FeatureCalibrator(cv=3, classes=range(4)).fit(scores, y, features=features)
    rows = found.predict_proba(scores, features=features)
    assert rows.shape == (500, 4)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    assert found.share_ > 0.0  # so that learners of fewer classes had a part in it


def test_one_column_logits_and_another_calibrator():
    scores, y, features = draw(600, 2)
    expected = FeatureCalibrator(cv=3).fit(scores, y, features=features)
    single = FeatureCalibrator(cv=3, scores="positive").fit(scores[:, 1], y, features=features)
    new = single.predict_proba(scores[:, 1], features=features)
    np.testing.assert_allclose(new, expected.predict_proba(scores, features=features), atol=1e-6)
    logits = FeatureCalibrator(TemperatureScaling(), cv=3, scores="logits")
    logits.fit(np.log(scores), y, features=features)
    assert isinstance(logits.calibrator_, TemperatureScaling)
    assert logits.share_ > 0.5


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_file_gives_the_same_bytes(n_classes):
    found, (scores, _, features) = fit(600, n_classes), draw(300, n_classes, seed=2)
    again = model_file.loads(model_file.dumps(found))
    assert again.report_ == found.report_
    assert again.columns_ == found.columns_
    expected = found.predict_proba(scores, features=features)
    assert expected.tobytes() == again.predict_proba(scores, features=features).tobytes()


def test_trees_that_lead_upwards_are_refused():
    tree = fit(600).trees_[0]
    nodes = {name: getattr(tree, name).copy() for name in BoostedTrees.__dataclass_fields__}
    inner = np.flatnonzero(nodes["column"] >= 0)[3]
    for name, value in (
        ("left", inner),
        ("right", len(nodes["column"])),
        ("missing", 0),
        ("threshold", np.nan),
        ("column", -2),
        ("roots", -1),
    ):
        forged = {key: array.copy() for key, array in nodes.items()}
        forged[name][0 if name == "roots" else inner] = value
        with pytest.raises(errors.ParameterError):
            BoostedTrees(**forged)


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_times_are_read_as_seconds(zone):
    times = pd.Series(pd.date_range("2026-03-01", periods=4, freq="h", tz=zone))
    times[1] = pd.NaT
    seconds = read_columns(pd.DataFrame({"when": times}), 4)["when"]
    np.testing.assert_array_equal(seconds - seconds[0], [0.0, np.nan, 7200.0, 10800.0])


def test_another_learner_is_used_but_not_saved():
    scores, y, features = draw(600)
    learner = RandomForestClassifier(30, min_samples_leaf=5, random_state=0)
    found = FeatureCalibrator(learner=learner, cv=3).fit(scores, y, features=features)
    assert found.report_.learners == ("RandomForestClassifier",)
    assert found.share_ > 0.5
    with pytest.raises(errors.ModelFileError, match="RandomForestClassifier"):
        model_file.dumps(found)


def test_what_cannot_be_exported_is_refused_by_name():
    pytest.importorskip("onnx")
    with pytest.raises(errors.ExportError, match="calibrator_"):
        export.to_onnx(fit())


def test_chunks_are_refused_with_a_remedy():
    dask = pytest.importorskip("dask.array")
    scores, y, features = draw(200)
    with pytest.raises(errors.ContainerError):
        FeatureCalibrator().fit(dask.from_array(scores), dask.from_array(y), features=features)


def test_a_classifier_hands_its_features_on():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = (X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + rng.normal(0, 0.5, 900) > 0).astype(int)
    rows = slice(0, 600), slice(600, None)
    plain = CalibratedClassifier(GaussianNB(), cv=3).fit(X[rows[0]], y[rows[0]])
    both = CalibratedClassifier(GaussianNB(), cv=3, features=True).fit(X[rows[0]], y[rows[0]])
    losses = [
        negative_log_likelihood(y[rows[1]], m.predict_proba(X[rows[1]])) for m in (plain, both)
    ]
    assert losses[1] < 0.9 * losses[0]
    assert isinstance(both.calibrators_[0], FeatureCalibrator)
    given = CalibratedClassifier(GaussianNB(), FeatureCalibrator(), cv=3).fit(
        X[rows[0]], y[rows[0]]
    )
    assert given.predict_proba(X).tobytes() == both.predict_proba(X).tobytes()
    frame = CalibratedClassifier(GaussianNB(), cv=3, features=True)
    frame.fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert [column.name for column in frame.calibrators_[0].columns_] == list("abcd")
