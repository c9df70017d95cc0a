import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from calibrant import PriorShift, errors, model_file
from conftest import refuses

FROM = np.array([0.5, 0.3, 0.2])


def rows_of(rng, n_rows, priors, from_priors=FROM):
    """Exactly calibrated rows for ``from_priors``, of classes that come with ``priors``."""
    y = rng.choice(len(priors), size=n_rows, p=priors)
    x = 1.5 * np.eye(len(priors))[y] + rng.normal(size=(n_rows, len(priors)))
    p = np.exp(1.5 * x) * from_priors
    return p / p.sum(axis=1, keepdims=True), y


@pytest.fixture
def fitted():
    return PriorShift().fit(*rows_of(np.random.default_rng(0), 2000, FROM))


@pytest.fixture
def shifted():
    return rows_of(np.random.default_rng(1), 3000, [0.05, 0.05, 0.9])


def nll(calibrator, rows, y):
    return -np.log(calibrator.predict_proba(rows)[np.arange(len(y)), y]).mean()


def test_bayes_rule_by_hand():
    calibrator = PriorShift(from_priors=[0.5, 0.25, 0.25], to_priors=[0.25, 0.25, 0.5])
    calibrator.fit(*rows_of(np.random.default_rng(0), 200, FROM))
    weights = np.array([0.5 * 0.5, 0.2 * 1.0, 0.3 * 2.0])
    assert calibrator.predict_proba([[0.5, 0.2, 0.3]])[0] == pytest.approx(weights / weights.sum())
    assert calibrator.ratio_.tolist() == [0.5, 1.0, 2.0]


def test_a_class_that_never_comes_gets_nothing_from_a_row_that_is_certain_of_it():
    calibrator = PriorShift(from_priors=[0.5, 0.25, 0.25], to_priors=[0.0, 0.25, 0.75])
    calibrator.fit(*rows_of(np.random.default_rng(0), 200, FROM))
    certain, nearly = calibrator.predict_proba([[1.0, 0.0, 0.0], [1.0 - 2e-9, 1e-9, 1e-9]])
    assert certain == pytest.approx([0.0, 0.25, 0.75], abs=1e-9)
    assert certain == pytest.approx(nearly, abs=1e-6)


def test_before_anything_is_known_rows_stay_as_they_are(fitted, shifted):
    assert np.array_equal(fitted.predict_proba(shifted[0]), shifted[0])
    assert fitted.priors_ is fitted.p_value_ is None


def test_a_shift_is_found_and_followed(fitted, shifted):
    before = nll(fitted, *shifted)
    assert fitted.adapt(shifted[0]) is fitted
    assert fitted.p_value_ < 1e-6
    assert np.all(
        (fitted.priors_low_ <= [0.05, 0.05, 0.9]) & (fitted.priors_high_ >= [0.05, 0.05, 0.9])
    )
    assert fitted.to_priors_ == pytest.approx([0.05, 0.05, 0.9], abs=0.02)
    assert nll(fitted, *shifted) < 0.7 * before


def test_without_a_shift_nothing_changes(fitted):
    rows, _ = rows_of(np.random.default_rng(2), 1000, FROM)
    assert fitted.adapt(rows).p_value_ > 0.05
    assert np.array_equal(fitted.predict_proba(rows), rows)


def test_the_order_of_rows_and_weights_as_repetitions_change_no_bit(fitted, shifted):
    rng = np.random.default_rng(4)
    rows, weight = shifted[0][:400], rng.integers(0, 3, 400)
    repeated = rng.permutation(np.repeat(rows, weight, axis=0))
    one = clone(fitted).fit(*shifted).adapt(rows, weight)
    two = clone(fitted).fit(*shifted).adapt(repeated)
    for name in ("priors_", "priors_low_", "priors_high_", "p_value_", "to_priors_"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


@pytest.mark.filterwarnings("ignore::calibrant.errors.ColumnOrderWarning")
def test_priors_by_class_and_columns_in_another_order():
    rows, y = rows_of(np.random.default_rng(0), 500, FROM)
    names = np.array(["b", "a", "c"])
    frame = pd.DataFrame(rows, columns=names)
    by_class = PriorShift(to_priors={"a": 1, "b": 2, "c": 7}).fit(frame, names[y])
    assert by_class.to_priors_.tolist() == [0.1, 0.2, 0.7]
    expected = rows[:, [1, 0, 2]] * by_class.ratio_
    expected /= expected.sum(axis=1, keepdims=True)
    assert by_class.predict_proba(frame) == pytest.approx(expected)
    free = PriorShift(alpha=1).fit(frame, names[y])
    there, back = free.adapt(frame[["c", "a", "b"]]).priors_, free.adapt(frame).priors_
    assert np.array_equal(there, back)


def test_class_weights_of_training_are_undone():
    """As far as the classifier is free to follow them."""
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.05).astype(int)
    x = rng.normal(size=(20_000, 1)) + 2 * y[:, None]
    plain = LogisticRegression(C=1e6).fit(x, y).predict_proba(x)
    for given, told in (("balanced", "balanced"), ({1: 20}, {1: 20}), ({0: 1, 1: 5}, [1, 5])):
        weighted = LogisticRegression(C=1e6, class_weight=given).fit(x, y).predict_proba(x)
        undone = PriorShift.from_class_weight(told, y).predict_proba(weighted)
        assert np.abs(undone - plain).max() < 0.02
        assert np.abs(weighted - plain).max() > 0.2


def test_sampling_is_undone():
    labels = np.repeat(["no", "yes"], [950, 50])
    shift = PriorShift.from_sampling({"no": 0.1}, labels)
    assert shift.to_priors_.tolist() == [0.95, 0.05]
    assert shift.predict_proba([[0.5, 0.5]])[0] == pytest.approx([10 / 11, 1 / 11])
    how = {"scores": "positive", "classes": ["no", "yes"]}
    same = PriorShift.from_sampling([0.1, 1.0], pd.Series(labels), **how)
    assert same.predict_proba([0.5])[0] == pytest.approx([10 / 11, 1 / 11])
    assert clone(shift).fit(
        [[0.9, 0.1]] * 95 + [[0.1, 0.9]] * 5, labels[::10]
    ).ratio_ == pytest.approx(shift.ratio_)


@pytest.mark.parametrize("kind", ["positive", "decision"])
def test_one_column_is_of_the_class_that_was_told(kind):
    """Sorted by name a probability of a bad risk would be read as that of a good one."""
    half = [0.5] if kind == "positive" else [0.0]
    labels = ["good"] * 950 + ["bad"] * 50
    make = {
        "rates": lambda **how: PriorShift.from_sampling({"good": 0.1}, labels, scores=kind, **how),
        "weights": lambda **how: PriorShift.from_class_weight(
            {"bad": 10.0}, labels, scores=kind, **how
        ),
    }
    for shift in make.values():
        with pytest.raises(errors.LabelError):
            shift()
        told = shift(classes=["good", "bad"])
        assert told.classes_.tolist() == ["good", "bad"]
        assert told.predict_proba(half)[0] == pytest.approx([10 / 11, 1 / 11])
        other = shift(classes=["bad", "good"]).predict_proba(half)[0]
        assert other == pytest.approx([1 / 11, 10 / 11])
    numbers = [0] * 950 + [1] * 50
    plain = PriorShift.from_sampling({0: 0.1}, numbers, scores=kind)
    assert plain.predict_proba(half)[0] == pytest.approx([10 / 11, 1 / 11])
    with pytest.raises(errors.ShapeError):
        PriorShift.from_class_weight("balanced", [0, 1, 2], scores=kind)


def test_told_classes_are_the_order_of_columns_and_of_arrays():
    labels = ["a"] * 60 + ["b"] * 30 + ["c"] * 10
    order = ["c", "a", "b"]
    for given, array in [({"a": 2.0, "c": 5.0}, [5.0, 2.0, 1.0]), ("balanced", None)]:
        plain = PriorShift.from_class_weight(given, labels)
        for one in (given, array) if array else (given,):
            told = PriorShift.from_class_weight(one, labels, classes=order)
            row = np.array([0.2, 0.3, 0.5])
            assert told.predict_proba([row])[0] == pytest.approx(
                plain.predict_proba([row[[1, 2, 0]]])[0][[2, 0, 1]]
            )
    with pytest.raises(errors.LabelError):
        PriorShift.from_class_weight("balanced", labels, classes=["a", "b"])
    with pytest.raises(errors.LabelError):
        PriorShift.from_class_weight("balanced", labels, classes=[*order, "d"])
    for own in ("from_priors", "to_priors"):
        with refuses(own):
            PriorShift.from_sampling([1, 1, 1], labels, **{own: [1, 1, 1]})


def test_known_priors_are_of_infinitely_many_rows(tmp_path):
    """So that few rows of a fit do not hide a shift from them."""
    rng, even = np.random.default_rng(0), np.array([0.5, 0.5])
    rows, y = rows_of(rng, 100, even, even)
    new, _ = rows_of(rng, 5000, [0.4, 0.6], even)
    known = PriorShift(from_priors=even).fit(rows, y)
    assert known.n_rows_ == np.inf
    assert PriorShift().fit(rows, y).n_rows_ == 100
    model_file.save(known, tmp_path / "known.calibrant")
    for shift in (known, model_file.load(tmp_path / "known.calibrant")):
        assert shift.adapt(new).p_value_ < 1e-6
        assert shift.priors_low_[1] < 0.6 < shift.priors_high_[1] < shift.priors_low_[1] + 0.05
        assert shift.to_priors_[1] == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *[("to_priors", value) for value in ([0.5, 0.5], [0.5, 0.6, -0.1], [0, 0, 0], "even", 0.5)],
        ("to_priors", [0.2, np.nan, 0.8]),
        ("to_priors", {0: 0.5, 1: 0.5}),
        ("to_priors", {0: 1, 1: 1, 2: 1, 3: 1}),
        ("to_priors", pd.Series([1, 2, 3])),
        ("from_priors", [0.5, 0.5, 0.0]),
        ("alpha", 2),
    ],
)
def test_bad_parameters_are_refused(argument, value):
    with refuses(argument):
        PriorShift(**{argument: value}).fit(*rows_of(np.random.default_rng(0), 200, FROM))


def test_bad_rows_and_calls_are_refused(fitted, shifted):
    for rows, error in [
        (shifted[0][:0], errors.ShapeError),
        (shifted[0][:, :2], errors.ShapeError),
        (0.5 * shifted[0], errors.RangeError),
        (np.where(shifted[0] > 0.9, np.nan, shifted[0]), errors.NonFiniteError),
    ]:
        with pytest.raises(error):
            fitted.adapt(rows)
    with pytest.raises(errors.WeightError):
        fitted.adapt(shifted[0], np.zeros(3000))
    assert fitted.priors_ is None
    with refuses("to_priors"):
        PriorShift(to_priors=[1, 1, 1]).fit(*shifted).adapt(shifted[0])
    nobody = np.array([[0.5, 0.5, 0.0]] * 200)
    with refuses("to_priors"):
        PriorShift(to_priors=[1, 1, 1], classes=[0, 1, 2]).fit(nobody, [0, 1] * 100)


@pytest.mark.parametrize(
    "given", [{7: 2.0}, "equal", [1, 0], [1, 2, 3], pd.Series([1, 2])], ids=str
)
def test_bad_class_weights_are_refused(given):
    with refuses("class_weight"):
        PriorShift.from_class_weight(given, [0, 1])


@pytest.mark.parametrize("y", [[1, 1], []])
def test_labels_of_less_than_two_classes_have_no_frequencies(y):
    with pytest.raises(errors.ShapeError):
        PriorShift.from_class_weight("balanced", y)
