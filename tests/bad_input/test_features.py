"""Features, percent and rounding, given as scores: what is refused, and the remedy."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from bad_input.promises import refused
from calibrant import TemperatureScaling, errors, metrics
from calibrant._cli.main import run
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
    with refused(errors.RangeError, words, "features", "predict_proba(X)", "CalibratedClassifier"):
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


def test_as_many_features_as_classes_are_told_by_their_sizes():
    X, y = load_wine(return_X_y=True)
    X = X[:, [0, 7, 12]]  # alcohol, nonflavanoid phenols, proline
    with refused(errors.RangeError, "3 columns for 3 distinct labels", "features"):
        TemperatureScaling().fit(X, y)
    logits = RNG.normal(size=(200, 3))
    with refused(errors.RangeError, "did you mean scores='logits'?") as caught:
        TemperatureScaling().fit(logits, RNG.integers(0, 3, 200))
    assert "features" not in str(caught.value)


def test_logits_of_classes_without_a_label_are_fitted():
    y = RNG.integers(0, 8, 300)
    logits = RNG.normal(size=(300, 10)) + 2 * np.eye(10)[y]
    assert TemperatureScaling(scores="logits").fit(logits, y).classes_.tolist() == list(range(10))


def test_percent_in_one_column_are_told_as_such():
    with refused(errors.RangeError, "these look like percent: divide them by 100") as caught:
        TemperatureScaling(scores="positive").fit(100 * P, Y)
    assert "decision" not in str(caught.value)
    with refused(errors.RangeError, "these look like percent: divide them by 100"):
        metrics.brier_score(Y, 100 * P)
    for margins in (np.log(P / (1 - P)), 3 * P):
        with refused(errors.RangeError, "scores='decision'"):
            TemperatureScaling(scores="positive").fit(margins, Y)


def write(path, names, columns):
    table = np.column_stack([Y, *columns]).tolist()
    lines = [",".join(["label", *names])] + [",".join(map(str, row)) for row in table]
    path.write_text("\n".join(lines))
    return str(path)


def test_the_command_names_percent_and_features(tmp_path, capsys):
    out = str(tmp_path / "model.calibrant")
    file = write(tmp_path / "percent.csv", ["p"], [100 * P])
    for command in (["fit", file, "-o", out], ["evaluate", file, "--scores", "positive"]):
        assert run(command) == 3
        said = capsys.readouterr().err
        assert "line 2" in said
        assert "these look like percent: divide them by 100" in said
        assert "decision" not in said
    columns = [10.0**j * RNG.normal(size=200) for j in range(4)]
    file = write(tmp_path / "features.csv", [f"x{j}" for j in range(4)], columns)
    for more in ([], ["--scores", "logits"]):
        assert run(["fit", file, "-o", out, *more]) == 3
        said = capsys.readouterr().err
        assert "features" in said
        assert "4 columns for 2 distinct labels" in said
        assert "--columns" in said


ROUNDED = [[-9.7e-6, 1.0000097], [1.0001, 0.0], [0.3, 0.7001], [1.0 + 1e-4, -1e-4]]


@pytest.mark.parametrize("row", ROUNDED, ids=str)
def test_rounding_up_to_1e_4_is_accepted_and_normalised(row):
    rows = check_scores(np.array([row]))
    assert rows.min() >= 0.0
    assert rows.sum() == pytest.approx(1.0, abs=1e-15)
    assert rows[0] == pytest.approx(row, abs=2e-4)


@pytest.mark.parametrize("value", [1.0 + 2e-4, -2e-4])
def test_more_than_rounding_is_refused(value):
    with refused(errors.RangeError, "scores[0, 0]", str(value)):
        check_scores(np.array([[value, 1.0 - value]]))
    with refused(errors.RangeError, "scores[0]", str(value)):
        check_scores(np.array([value]), "positive")
    single = check_scores(np.array([1.0 + 9e-5, -9e-5, 0.5]), "positive")
    assert single.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]
