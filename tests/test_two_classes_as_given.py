"""Two classes as people have them: every public name gives the same numbers for every form.

A vector, one column, two columns or margins, with labels 0 and 1, False and True, "no" and "yes".
"""

import dataclasses
import inspect
import json
from functools import cache

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant
from calibrant import decisions, errors, metrics, model_file, plots, report
from calibrant._calibrators.base import Calibrator
from calibrant._cli.main import run

mpl.use("Agg")
pytestmark = pytest.mark.filterwarnings("ignore")

N_ROWS = 240
RNG = np.random.default_rng(3)
MARGINS = RNG.normal(-0.5, 2.0, N_ROWS)
P = 1.0 / (1.0 + np.exp(-MARGINS))
HAPPENED = RNG.random(N_ROWS) < 1.0 / (1.0 + np.exp(0.3 - 0.6 * MARGINS))
TWO = np.column_stack([1.0 - P, P])
GROUPS = np.where(np.arange(N_ROWS) % 2, "a", "b")

LABELS = {
    "0/1": (HAPPENED.astype(int), {}, {}),
    "bool": (HAPPENED, {}, {}),
    "no/yes": (np.where(HAPPENED, "yes", "no"), {"pos_label": "yes"}, {"classes": ["no", "yes"]}),
}
"""Labels, and what metrics and calibrators have to be told where one column is given."""

FORMS = {
    "vector": P,
    "column": P[:, None],
    "list": P.tolist(),
    "series": pd.Series(P, index=np.arange(N_ROWS)[::-1], name="score"),
    "frame": pd.DataFrame({"score": P}),
    "polars": pl.Series("score", P),
}

COSTS = {"false_positive": 1, "false_negative": 5}


def numbers(found):
    """All numbers of a result, by name; labels and names of classes are none."""
    if dataclasses.is_dataclass(found):
        told = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
        return {k: numbers(v) for k, v in told.items() if k not in ("kind", "classes")}
    if isinstance(found, dict):
        return {k: numbers(v) for k, v in found.items() if k != "seconds"}
    if isinstance(found, list | tuple):
        return [numbers(v) for v in found]
    if isinstance(found, np.ndarray):
        return found.tolist() if found.dtype.kind in "fi" else None
    return found if isinstance(found, float) else None


def drawn(axes):
    """All lines of a picture."""
    axes = getattr(axes, "axes", axes)
    every = axes if isinstance(axes, list) else [axes]
    return [[line.get_xydata().tolist() for line in ax.lines] for ax in every]


def of_metrics(name, **options):
    if "n_resamples" in inspect.signature(getattr(metrics, name)).parameters:
        options["n_resamples"] = 20
    return lambda y, p, **told: getattr(metrics, name)(y, p, **told, **options)


def displayed(y, p, **told):
    return drawn(plots.ReliabilityDisplay.from_predictions(y, p, n_resamples=20, **told).ax_)


def with_costs(name, *others):
    def call(y, p, **told):
        more = [p for _ in others]
        return getattr(decisions, name)(y, p, *more, COSTS, **told)

    return call


def conformal(y, p, **told):
    return np.asarray(decisions.ConformalSets(0.8).fit(p, y, **told).quantile_)


def of_plots(name):
    compute, draw = getattr(plots, f"compute_{name}"), getattr(plots, f"draw_{name}")
    return lambda y, p, **told: drawn(draw(compute(y, p, **told)))


METRICS = {
    **{name: of_metrics(name) for name in metrics.__all__ if name != "Predictions"},
    "Predictions": lambda y, p, **told: metrics.accuracy(metrics.Predictions.read(y, p, **told)),
    "ReliabilityDisplay": displayed,
    "compute_classwise": lambda y, p, **told: plots.compute_classwise(y, p, n_resamples=20, **told),
    "compute_reliability_grid": lambda y, p, **told: plots.compute_reliability_grid(
        y, {"a": p}, n_resamples=20, **told
    ),
    "draw_classwise": of_plots("classwise"),
    "draw_reliability": lambda y, p, **told: drawn(
        plots.draw_reliability(metrics.reliability_curve(y, p, n_resamples=20, **told))
    ),
    "draw_reliability_grid": lambda y, p, **told: drawn(
        plots.draw_reliability_grid(
            plots.compute_reliability_grid(y, {"a": p}, n_resamples=20, **told)
        )
    ),
    "draw_cost_curve": lambda y, p, **told: drawn(
        plots.draw_cost_curve(decisions.cost_curve(y, p, COSTS, **told))
    ),
    "draw_decision_curve": lambda y, p, **told: drawn(
        plots.draw_decision_curve(decisions.decision_curve(y, p, **told))
    ),
    "draw_risk_coverage": lambda y, p, **told: drawn(
        plots.draw_risk_coverage(decisions.risk_coverage(y, p, **told))
    ),
    "expected_cost": with_costs("expected_cost"),
    "cost_curve": with_costs("cost_curve"),
    "value_of_calibration": with_costs("value_of_calibration", "y_calibrated"),
    "decision_curve": decisions.decision_curve,
    "risk_coverage": decisions.risk_coverage,
    "threshold_for": lambda y, p, **told: decisions.threshold_for(y, p, accuracy=0.8, **told),
    "prediction_sets": lambda y, p, **told: decisions.prediction_sets(p, 0.9, y_true=y, **told),
    "ConformalSets": conformal,
}
"""Every public function of labels and probabilities, called with them."""

WITH_COSTS = {"draw_cost_curve", "expected_cost", "cost_curve", "value_of_calibration"}
"""They have to know the positive class of two columns as well: costs name its errors."""

NOT_OF_LABELS_AND_SCORES = {
    "CalibratedClassifier": "takes features, and makes two columns of what the classifier says",
    "CostSensitive": "takes what its estimator takes; alone it is compared in tests/decisions",
    "__version__": "a text",
    "bivariate_isotonic_regression": "fits a function of two variables to numbers",
    "compute_map": "of a fitted calibrator, which is compared as a calibrator",
    "draw_map": "of a fitted calibrator, which is compared as a calibrator",
    "build_report": "of a comparison, which is compared",
    "write_report": "of a comparison, which is compared",
    "compare": "has a test of its own",
}

PARTS = [calibrant.TemperatureScaling(), calibrant.FlattenedIsotonic()]
OPTIONS = {
    "Chain": {"calibrators": PARTS},
    "Mixture": {"calibrators": PARTS},
    "MaskedCalibrator": {"calibrator": calibrant.TemperatureScaling()},
    "GroupedCalibrator": {"calibrator": calibrant.TemperatureScaling()},
    "PriorShift": {"to_priors": [0.7, 0.3]},
    "AutoCalibrator": {"candidates": ("ts", "structured"), "cv": 2},
}
CALIBRATORS = [
    name
    for name in calibrant.__all__
    if isinstance(getattr(calibrant, name), type)
    and issubclass(getattr(calibrant, name), Calibrator)
]
TOLERANCE = {
    "AutoCalibrator": 1e-6,
    "GroupedCalibrator": 1e-8,
    "NormalizationAwareIsotonic": 1e-6,
    "StructuredScaling": 1e-8,
}
"""Of iterations that end when they are near enough; margins have other last bits."""


def test_every_public_name_is_here():
    rooms = (calibrant, metrics, plots, decisions, report)
    public = {name for room in rooms for name in room.__all__}
    assert public == {*METRICS, *CALIBRATORS, *NOT_OF_LABELS_AND_SCORES}


@pytest.mark.parametrize("name", METRICS)
def test_functions_of_probabilities_give_the_same_for_every_form(name):
    call = METRICS[name]
    expected = numbers(call(HAPPENED.astype(int), TWO))
    assert expected
    for labels, (y, told, _) in LABELS.items():
        two = numbers(call(y, TWO, **(told if name in WITH_COSTS else {})))
        assert json.dumps(two) == json.dumps(expected), labels
        forms = FORMS if labels == "0/1" else {"vector": P, "column": P[:, None]}
        for form, given in forms.items():
            found = numbers(call(y, given, **told))
            assert json.dumps(found) == json.dumps(expected), (labels, form)


def fitted(name, scores, given, y, **told):
    how = {"groups": GROUPS} if name == "GroupedCalibrator" else {}
    made = getattr(calibrant, name)(scores=scores, **OPTIONS.get(name, {}), **told)
    found = made.fit(given, y, **how)
    return found, found.predict_proba(given, **how), found.predict(given, **how)


@cache
def of_two_columns(name):
    return fitted(name, "probabilities", TWO, HAPPENED.astype(int))


@pytest.mark.parametrize("name", CALIBRATORS)
def test_calibrators_give_the_same_for_every_form(name, tmp_path):
    _, expected, decided = of_two_columns(name)
    near = TOLERANCE.get(name, 1e-10)
    for labels, (y, _, told) in LABELS.items():
        forms = FORMS if labels == "0/1" and name == "TemperatureScaling" else {"vector": P}
        for form, given in {**forms, "column": P[:, None]}.items():
            found, rows, best = fitted(name, "positive", given, y, **told)
            assert np.array_equal(rows, expected), (labels, form)
            assert (best == y.dtype.type("yes") if "yes" in y else best).astype(bool).tolist() == (
                decided.astype(bool).tolist()
            )
            assert found.classes_.tolist() == sorted(set(y.tolist()))
        found, rows, _ = fitted(name, "decision", MARGINS, y, **told)
        np.testing.assert_allclose(rows, expected, rtol=0, atol=near)
        path = tmp_path / "model.calibrant"
        model_file.save(found, path)
        again = model_file.load(path)
        how = {"groups": GROUPS} if name == "GroupedCalibrator" else {}
        assert again.scores == "decision"
        assert np.array_equal(again.predict_proba(MARGINS, **how)[:, 1], rows[:, 1])


def test_methods_that_depend_on_a_shift_take_margins_as_log_probabilities():
    """Their result on logits depends on a number added to a row; margins do not tell it."""
    logs = -np.logaddexp(0.0, np.column_stack([MARGINS, -MARGINS]))
    y = HAPPENED.astype(int)
    _, rows, _ = fitted("VectorScaling", "decision", MARGINS, y)
    _, same, _ = fitted("VectorScaling", "logits", logs, y)
    assert np.array_equal(rows, same)


def test_one_row_and_exact_zeros():
    y, given = HAPPENED.astype(int), P.copy()
    given[:3] = 0.0, 1.0, 0.5
    two = np.column_stack([1.0 - given, given])
    found = calibrant.TemperatureScaling(scores="positive").fit(given, y)
    same = calibrant.TemperatureScaling().fit(two, y)
    assert np.array_equal(found.predict_proba(given), same.predict_proba(two))
    assert np.array_equal(found.predict_proba([0.25]), same.predict_proba([[0.75, 0.25]]))
    with np.errstate(divide="ignore"):
        margins = np.log(given) - np.log1p(-given)
        logs = np.log(two)  # what is read of an exact zero depends on the kind
    of_margins = calibrant.TemperatureScaling(scores="decision").fit(margins, y)
    of_logits = calibrant.TemperatureScaling(scores="logits").fit(logs, y)
    got = of_margins.predict_proba(margins)
    np.testing.assert_allclose(got, of_logits.predict_proba(logs), rtol=0, atol=1e-12)


def test_all_labels_equal():
    for y in (np.zeros(N_ROWS, int), np.zeros(N_ROWS, bool)):
        found = calibrant.TemperatureScaling(scores="positive").fit(P, y)
        assert found.classes_.tolist() == [0, 1]
    with pytest.raises(errors.LabelError, match="classes="):
        calibrant.TemperatureScaling(scores="positive").fit(P, np.full(N_ROWS, "no"))


@pytest.mark.parametrize("scores", ["positive", "decision"])
def test_chunks_give_the_same(scores):
    given = P if scores == "positive" else MARGINS
    y, told = np.where(HAPPENED, "yes", "no"), {"classes": ["no", "yes"]}
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    for name in ("TemperatureScaling", "FlattenedIsotonic"):
        made = getattr(calibrant, name)(scores=scores, **told)
        expected = made.fit(given, y).predict_proba(given)
        lazy, labels = da.from_array(given, chunks=100), da.from_array(y, chunks=100)
        for chunked in (lazy, lazy[:, None]):
            made.fit(chunked, labels)
            np.testing.assert_allclose(made.predict_proba(given), expected, rtol=0, atol=1e-12)
            out = made.predict_proba(chunked)
            assert out.shape == (N_ROWS, 2)
            assert np.array_equal(out.compute(), made.predict_proba(given))
            assert made.predict(chunked).compute().tolist() == made.predict(given).tolist()
        frame = dd.from_pandas(pd.DataFrame({"score": given, "label": y}), npartitions=3)
        made.fit(frame["score"], frame["label"])
        np.testing.assert_allclose(made.predict_proba(given), expected, rtol=0, atol=1e-12)
        made = getattr(calibrant, name)(scores=scores, **told)
        for rows in (slice(0, 100), slice(100, None)):
            made.partial_fit(given[rows], y[rows])
        np.testing.assert_allclose(made.predict_proba(given), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("labels", LABELS)
def test_compare_gives_the_same(labels):
    y, _, told = LABELS[labels]
    half = slice(0, N_ROWS, 2), slice(1, N_ROWS, 2)

    def compared(scores, given):
        parts = [part for own in half for part in (y[own], given[own])]
        options = {"n_resamples": 20, "scores": scores, **told}
        return report.compare(*parts, ["ts", "two-class"], **options)

    expected, *others = (
        compared(*both)
        for both in (
            ("probabilities", TWO),
            ("positive", P),
            ("positive", P[:, None]),
            ("decision", MARGINS),
        )
    )
    headline = expected.verdict.headline
    for found in others:
        assert found.verdict.headline == headline
        for a, b in zip(found.results, expected.results, strict=True):
            both = [
                [one.value for one in own.evaluation.estimates().values()] for own in (a, b)
            ]  # intervals draw rows by their last bits, which margins change
            np.testing.assert_allclose(*both, rtol=0, atol=1e-9)
            assert a.curve.kind == found.classes[1]
            assert a.curve.ece == pytest.approx(a.evaluation.positive_ece.value)


def files(directory, labels):
    """The same rows as a file of each form, with the options that say so."""
    y = LABELS[labels][0]
    names = [str(c) for c in sorted(set(y.tolist()))]
    told = ["--positive", "yes"] if labels == "no/yes" else []
    tables = {
        "two": (pd.DataFrame({names[0]: TWO[:, 0], names[1]: P}), []),
        "one": (pd.DataFrame({"score": P}), told),
        "margins": (pd.DataFrame({"score": MARGINS}), ["--scores", "decision", *told]),
    }
    for form, (frame, options) in tables.items():
        path = directory / f"{form}.csv"
        frame.assign(label=y).to_csv(path, index=False)
        yield form, path, options
    np.savez(directory / "one.npz", probs=P, labels=y, classes=np.array(names))
    np.savez(directory / "margins.npz", logits=MARGINS, labels=y, classes=np.array(names))
    yield "npz", directory / "one.npz", []
    yield "npz margins", directory / "margins.npz", []


@pytest.mark.parametrize("labels", LABELS)
def test_the_command_gives_the_same(labels, tmp_path, capsys):
    pytest.importorskip("pyarrow")

    def said(*words):
        assert run([*map(str, words), "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    found, rows = {}, {}
    for form, path, options in files(tmp_path, labels):
        draws = ("--resamples", 20)
        told = said("evaluate", path, *options, *draws)
        found[(form,)] = {k: v for k, v in told.items() if k != "source"}
        model, out = tmp_path / "model.calibrant", tmp_path / "out.npz"
        said("fit", path, *options, "-m", "ts", "-o", model)
        said("apply", model, path, "-o", out)
        with np.load(out) as written:
            rows[form] = written["probs"]
        if labels == "no/yes" and path.suffix == ".csv":
            compared = said("compare", path, *options, "--split", 0.5, "--methods", "ts")
            found[form, "compare"] = compared["methods"][1]
    for (form, *how), values in found.items():
        first = found["two", *how]
        for name in ("positive_ece", "negative_log_likelihood", "accuracy"):
            assert values[name]["value"] == pytest.approx(first[name]["value"], abs=1e-9), form
    for form, values in rows.items():
        np.testing.assert_allclose(values, rows["two"], rtol=0, atol=1e-9, err_msg=form)


def test_a_table_keeps_its_only_column(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    path, model, out = (tmp_path / name for name in ("p.csv", "model.calibrant", "out.csv"))
    pd.DataFrame({"id": np.arange(N_ROWS), "score": P, "label": HAPPENED}).to_csv(path, index=False)
    chosen = ("--columns", "score")
    assert run(["fit", str(path), *chosen, "-m", "ts", "-o", str(model)]) == 0
    assert run(["apply", str(model), str(path), *chosen, "-o", str(out)]) == 0
    found = pd.read_csv(out)
    assert list(found) == ["id", "score", "label"]
    expected = calibrant.TemperatureScaling(scores="positive").fit(P, HAPPENED)
    np.testing.assert_allclose(found["score"], expected.predict_proba(P)[:, 1], atol=1e-12)
    capsys.readouterr()
