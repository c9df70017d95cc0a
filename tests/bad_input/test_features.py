"""Features, percent and rounding, given as scores: what is refused, and the remedy."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from bad_input.promises import refused
from calibrant import TemperatureScaling, errors
from calibrant._gate._simplex import check_scores

SETS = {
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}
RNG = np.random.default_rng(0)
P = RNG.random(200)
Y = (RNG.random(200) < P).astype(int)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
@pytest.mark.parametrize("name", SETS)
def test_features_are_not_taken_for_logits(name):
    X, y = SETS[name](return_X_y=True)
    n_columns, n_labels = X.shape[1], len(np.unique(y))
    words = f"{n_columns} columns for {n_labels} distinct labels"
    with refused(errors.RangeError, "for features", "predict_proba(X)", "CalibratedClassifier"):
        TemperatureScaling().fit(X, y)
    for given in (X, (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)):
        with pytest.warns(errors.ScoresKindWarning, match=words) as caught:
            TemperatureScaling(scores="logits").fit(given, y)
        said = str(next(one.message for one in caught if words in str(one.message)))
        assert "these look like features" in said
        assert "pass predict_proba(X) of the classifier" in said
        assert "pass classes=" in said
    told = TemperatureScaling(scores="logits", classes=np.arange(n_columns))
    told.fit(X, y)
    assert told.classes_.tolist() == list(range(n_columns))


def test_logits_of_classes_without_a_label_are_fitted():
    y = RNG.integers(0, 8, 300)
    logits = RNG.normal(size=(300, 10)) + 2 * np.eye(10)[y]
    assert TemperatureScaling(scores="logits").fit(logits, y).classes_.tolist() == list(range(10))


def test_percent_and_margins_in_one_column_are_told_as_such():
    for scores in (100 * P, np.log(P / (1 - P)), 3 * P):
        with refused(errors.RangeError, "scores='decision'; divide percent by 100"):
            TemperatureScaling(scores="positive").fit(scores, Y)


@pytest.mark.parametrize("value", [1.0 + 2e-4, -2e-4])
def test_more_than_rounding_is_refused(value):
    with refused(errors.RangeError, "scores[0, 0]", str(value)):
        check_scores(np.array([[value, 1.0 - value]]))
    with refused(errors.RangeError, "scores[0]", str(value)):
        check_scores(np.array([value]), "positive")
    single = check_scores(np.array([1.0 + 9e-5, -9e-5, 0.5]), "positive")
    assert single.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]
