"""Values of metrics: exact fractions, scikit-learn, and the numbers that other programs print."""

import math

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from sklearn.utils.fixes import parse_version

from calibrant import metrics
from calibrant.metrics import (
    accuracy,
    brier_score,
    classwise_ece,
    confidence_ece,
    cumulative_differences,
    kernel_density_ece,
    negative_log_likelihood,
    ranked_probability_score,
    reliability_curve,
    score_decomposition,
    thresholded_ece,
)
from conftest import DATA, REAL_FILES, each_real_file, load_real
from metrics.cases import SCALARS, predictions, recorded, weighted
from reference import metrics as reference

close = {"rel": 1e-14, "abs": 1e-15}


def values(y, proba, w, n_bins=15, floor=1e-12):
    """Pairs of ours and the exact value, of every metric that has one."""
    own = {"sample_weight": w, "classes": np.arange(proba.shape[1])}
    exact = proba.tolist(), y.tolist(), w.tolist()
    bins = own | {"n_bins": n_bins}
    two = np.column_stack([1 - proba[:, 1], proba[:, 1]])
    yield accuracy(y, proba, **own), reference.accuracy(*exact)
    yield brier_score(y, proba, **own), reference.brier(*exact)
    yield ranked_probability_score(y, proba, **own), reference.ranked(*exact)
    loss = negative_log_likelihood(y, proba, min_probability=floor, **own)
    yield loss, reference.likelihood(*exact, floor)
    for norm in ("l1", "l2", "max"):
        for ours, expected in (
            (confidence_ece, reference.confidence_error),
            (classwise_ece, reference.classwise_error),
            (thresholded_ece, reference.thresholded_error),
        ):
            yield ours(y, proba, norm=norm, **bins), expected(*exact, n_bins, norm=norm)
        quantile = confidence_ece(y, proba, strategy="quantile", norm=norm, **bins)
        yield quantile, reference.confidence_error(*exact, n_bins, "quantile", norm)
        for strategy in ("uniform", "quantile"):
            how = {"n_bins": n_bins, "strategy": strategy, "norm": norm}
            ours = metrics.positive_ece(y == 1, two, sample_weight=w, classes=[False, True], **how)
            hits = (y == 1).astype(int).tolist()
            yield ours, reference.positive_error(two.tolist(), hits, exact[2], **how)
    found = cumulative_differences(y, proba, **own)
    yield from zip(
        (found.kuiper, found.kolmogorov_smirnov), reference.cumulative_errors(*exact), strict=True
    )
    kept = [[cell for cell, weight in zip(part, w, strict=True) if weight > 0] for part in exact]
    for score, given_loss in (("brier", ()), ("log", (reference.log_loss,))):
        parts = score_decomposition(y, proba, score=score, **own)
        ours = parts.score, parts.refinement, parts.uncertainty
        yield from zip(ours, reference.decomposition(*kept, *given_loss), strict=True)


@given(
    data=predictions(),
    n_bins=st.sampled_from([1, 2, 3, 10, 15]),
    floor=st.sampled_from([1e-12, 1e-3, 0]),
)
def test_equal_the_exact_references(data, n_bins, floor):
    proba, y, w = data
    for ours, expected in values(y, proba, w, n_bins, floor):
        assert ours == pytest.approx(float(expected), rel=1e-13, abs=1e-15)


def test_equal_the_exact_references_with_real_weights():
    proba, y, w = weighted(120)
    for ours, expected in values(y, proba, w):
        assert ours == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.7"),
    reason="whose Brier score is of two classes alone",
)
def test_agree_with_scikit_learn():
    """Whose Brier score sums over the classes, and of two does not."""
    proba, y, w = weighted()
    for weight in (None, w):
        own = {"sample_weight": weight}
        for ours, theirs in (
            (accuracy(y, proba, **own), accuracy_score(y, proba.argmax(axis=1), **own)),
            (negative_log_likelihood(y, proba, **own), log_loss(y, proba, **own)),
            (4 * brier_score(y, proba, **own), brier_score_loss(y, proba, **own)),
            (brier_score(y < 2, proba[:, 0], **own), brier_score_loss(y < 2, proba[:, 0], **own)),
        ):
            assert ours == pytest.approx(theirs, rel=1e-14)


def test_agree_with_other_programs():
    """Numbers of torchmetrics 1.9.0 with torch 2.13.0, whose sums are float32, and of netcal 1.4.0.

    ::

        from torchmetrics.functional.classification import (
            binary_calibration_error, multiclass_calibration_error)
        for norm in ("l1", "l2", "max"):
            for n_bins in (15, 10):
                print(multiclass_calibration_error(
                    torch.from_numpy(bold), torch.from_numpy(y), 4, n_bins, norm).item())
        print(np.mean([binary_calibration_error(
            torch.from_numpy(bold[:, j]), torch.from_numpy((y == j).astype(int)), 15).item()
            for j in range(4)]))

        from netcal.metrics import ACE, ECE, MCE
        print(ECE(15).measure(bold, y), MCE(15).measure(bold, y), ACE(15).measure(bold, y))
    """
    bold, _, y = recorded()
    for norm, n_bins, theirs in (
        ("l1", 15, 0.13387387990951538),
        ("l1", 10, 0.1303950846195221),
        ("l2", 15, 0.15062357485294342),
        ("l2", 10, 0.1328645944595337),
        ("max", 15, 0.6744270324707031),
        ("max", 10, 0.1738448143005371),
    ):
        ours = confidence_ece(y, bold, n_bins=n_bins, norm=norm)
        assert ours == pytest.approx(theirs, rel=2e-6)
    assert classwise_ece(y, bold) == pytest.approx(0.07061195829657048, rel=2e-6)
    assert confidence_ece(y, bold) == pytest.approx(0.1338739122420676, rel=1e-14)
    assert confidence_ece(y, bold, norm="max") == pytest.approx(0.6744270403529915, rel=1e-14)
    curve = reliability_curve(y, bold, n_resamples=0)
    gaps = np.abs(curve.mean_probability - curve.frequency)
    assert np.nanmean(gaps) == pytest.approx(0.17611063580524045, rel=1e-14)


def test_agree_with_probmetrics():
    """Numbers of probmetrics 1.3.0, in single precision, of the class 1 of two.

    ::

        two = np.column_stack([1 - top, top])
        KuiperCalibrationMetric().compute_from_labels_probs(right, two)
        KolmogorovSmirnovCalibrationMetric().compute_from_labels_probs(right, two)
    """
    bold, honest, y = recorded()
    for proba, kuiper, peak in (
        (bold, 0.12710990011692047, 0.12216120958328247),
        (honest, 0.02654866874217987, 0.025481626391410828),
    ):
        right = (proba.argmax(axis=1) == y).astype(int)
        found = cumulative_differences(right, proba.max(axis=1), kind=1)
        assert found.kuiper == pytest.approx(kuiper, abs=1e-6)
        assert found.kolmogorov_smirnov == pytest.approx(peak, abs=1e-6)
        assert cumulative_differences(y, proba).kuiper == found.kuiper


def test_density_agrees_with_the_authors_program():
    """Numbers of ``util_evaluation.py`` of zhang64-llnl/Mix-n-Match-Calibration, KDEpy 1.1.12.

    ::

        print(ece_kde_binary(bold, np.eye(4)[y]), ece_kde_binary(honest, np.eye(4)[y]))

    Its grid has 7,447 nodes in [0, 1], is zero at both ends, and repeats the last value where
    there is no density.
    """
    bold, honest, y = recorded()
    assert kernel_density_ece(y, bold) == pytest.approx(0.1209897311848143, abs=2e-5)
    assert kernel_density_ece(y, honest) == pytest.approx(0.0383726593855306, abs=2e-6)


@pytest.mark.parametrize("name", SCALARS)
def test_certain_and_right_is_perfect(name):
    y = np.arange(12) % 3
    expected = 1.0 if name == "accuracy" else 0.0
    assert SCALARS[name](y, np.eye(3)[y]) == pytest.approx(expected, abs=1e-3 * ("density" in name))


def test_certain_and_wrong_costs_the_floor_or_infinity():
    wrong, y = np.eye(3)[[1, 0, 2]], np.array([0, 1, 2])
    assert negative_log_likelihood(y, wrong) == pytest.approx(2 / 3 * 12 * math.log(10), rel=1e-14)
    assert negative_log_likelihood(y, wrong, min_probability=0) == np.inf
    assert brier_score(y, wrong) == pytest.approx(2 / 3 * 2 / 3, rel=1e-15)
    tiny = np.array([[1.0, 5e-324], [0.5, 0.5]])
    expected = (-math.log(5e-324) - math.log(0.5)) / 2
    assert negative_log_likelihood([1, 0], tiny, min_probability=0) == pytest.approx(expected)


def test_sums_over_many_rows_keep_their_digits():
    """A running sum of a million terms of 0.1 is off in the eleventh digit; this one is not."""
    y, p = np.ones(1_000_000, dtype=int), np.full(1_000_000, 0.9)
    assert brier_score(y, p, classes=[0, 1]) == pytest.approx(0.01, **close)


@pytest.mark.parametrize(
    "name", [n for n in SCALARS if "ece" in n or n.endswith("error") or n == "accuracy"]
)
@given(data=predictions())
def test_errors_and_accuracy_are_within_0_and_1(name, data):
    proba, y, w = data
    value = SCALARS[name](y, proba, sample_weight=w, classes=np.arange(proba.shape[1]))
    assert 0.0 <= value <= 1.0


each_norm = pytest.mark.parametrize("norm", ["l1", "l2", "max"])


def curve_error(y, p, n_bins):
    """ECE from scikit-learn's curve, which does not say how many rows a bin has."""
    share, mean = calibration_curve(y, p, n_bins=n_bins, strategy="uniform")
    bins = np.searchsorted(np.linspace(0, 1, n_bins + 1)[1:-1], p)
    counts = np.bincount(bins)
    return np.sum(np.abs(share - mean) * counts[counts > 0]) / len(p)


@pytest.mark.parametrize("n_bins", [3, 10, 15, 49])
def test_bins_are_those_of_scikit_learn_also_on_their_edges(n_bins):
    proba, y, _ = weighted()
    edges = np.linspace(0, 1, n_bins + 1)
    p = np.concatenate([proba[:, 0], edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
    p = np.clip(p, 0, 1)
    hit = np.concatenate([y == 0, np.arange(3 * n_bins + 3) % 3 == 0])
    both = (curve_error(hit, p, n_bins) + curve_error(~hit, 1 - p, n_bins)) / 2
    assert classwise_ece(hit, p, n_bins=n_bins) == pytest.approx(both, rel=1e-13)
    top = np.maximum(p, 1 - p)
    right = hit == (p > 0.5)
    expected = curve_error(right, top, n_bins)
    assert confidence_ece(hit, p, n_bins=n_bins) == pytest.approx(expected, rel=1e-13)


def test_uniform_rows_count_in_the_thresholded_error_whatever_their_rounding():
    for k in range(2, 60):
        for dtype in (np.float64, np.float32):
            uniform = np.full((k, k), 1 / k, dtype=dtype)
            assert thresholded_ece(np.arange(k), uniform) == pytest.approx(0, abs=1e-15)
            one_class = thresholded_ece(np.zeros(k, int), uniform, classes=range(k))
            assert one_class == pytest.approx(2 * (k - 1) / k**2)  # 1 - 1/k once, 1/k for others


def parts(y, proba, **options):
    found = score_decomposition(y, proba, **options)
    return [found.score, found.refinement, found.uncertainty]


@pytest.mark.parametrize("score", ["brier", "log"])
@given(predictions())
def test_identity_and_signs(score, data):
    proba, y, w = data
    found = score_decomposition(
        y, proba, score=score, sample_weight=w, classes=range(proba.shape[1])
    )
    assert not any(math.isnan(value) for value in found.to_dict().values())
    assert found.miscalibration >= 0
    assert found.discrimination >= 0
    assert math.isfinite(found.refinement)
    assert found.score == pytest.approx(
        found.miscalibration - found.discrimination + found.uncertainty, abs=1e-15
    )
    assert found.score == pytest.approx(found.refinement + found.miscalibration, abs=1e-15)


@pytest.mark.parametrize("score", ["brier", "log"])
def test_agrees_with_scikit_learn_piece_by_piece(score):
    proba, y, w = weighted(800)
    loss = brier_score_loss if score == "brier" else log_loss
    sums = np.zeros(3)
    for j in range(4):
        p, hit = proba[:, j], (y == j).astype(int)
        fitted = IsotonicRegression().fit(p, hit, sample_weight=w).predict(p)
        constant = np.full(len(p), np.average(hit, weights=w))
        for at, q in enumerate((p, fitted, constant)):
            sums[at] += loss(hit, q, sample_weight=w) / 4
    assert parts(y, proba, score=score, sample_weight=w) == pytest.approx(sums, rel=1e-10)


def test_infinite_scores_are_infinite_miscalibration():
    found = score_decomposition([0, 1, 1], [[1.0, 0.0], [0.4, 0.6], [1.0, 0.0]], score="log")
    assert found.score == found.miscalibration == math.inf
    assert found.refinement == pytest.approx(
        score_decomposition([0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.9, 0.1]], score="log").refinement
    )


def table():
    """The rows of the table of all files: {name: cells}."""
    text = (DATA / "README.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    return {row[1].removesuffix(".npz"): row for row in rows if row[1:] and ".npz" in row[1]}


@each_real_file
def test_metrics_are_those_of_the_table(name):
    """Accuracy % of both parts, conf-ECE % and NLL of the test part, to the decimals printed."""
    data = load_real(name)
    classes = np.arange(data["test"][0].shape[1])
    right = {p: metrics.accuracy(y, proba, classes=classes) for p, (proba, y) in data.items()}
    proba, y = data["test"]
    found = [
        f"{100 * right['val']:.1f} / {100 * right['test']:.1f}",
        f"{100 * metrics.confidence_ece(y, proba, classes=classes):.1f}",
        f"{metrics.negative_log_likelihood(y, proba, classes=classes):.3f}",
    ]
    assert found == table()[name][6:9]


@pytest.mark.parametrize("name", REAL_FILES[::6])
def test_every_metric_runs_without_a_warning(name):
    proba, y = load_real(name)["test"]
    classes = np.arange(proba.shape[1])
    result = metrics.evaluate(y, proba, classes=classes, n_resamples=10)
    for value, low, high in result.estimates().values():
        assert 0 <= value < np.inf
        assert np.isnan(low) or 0 <= low <= high < np.inf
    parts = metrics.score_decomposition(y, proba, classes=classes)
    assert parts.score == pytest.approx(result.brier_score.value, rel=1e-12)
    curve = metrics.reliability_curve(y, proba, classes=classes, n_resamples=20)
    assert curve.ece == pytest.approx(result.confidence_ece.value, rel=1e-12)
    test = metrics.calibration_test(y, proba, metric="classwise", classes=classes, n_resamples=20)
    assert test.statistic == pytest.approx(result.classwise_ece.value, rel=1e-12)
