"""Calibrators and metrics of other packages under one contract, for their own environment.

A calibrator has ``fit(p, y)`` and ``predict(p)``, and ``prepare()``, which imports what these need;
all parameters are the package's defaults.
"""

from importlib import import_module

import numpy as np

BINS = 15


class Passthrough:
    """A classifier whose features are its probabilities, for packages that wrap classifiers."""

    _estimator_type = "classifier"

    def __init__(self, n_classes):
        self.classes_ = np.arange(n_classes)
        self.n_features_in_ = n_classes

    def __sklearn_tags__(self):
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        target = TargetTags(required=True)
        return Tags("classifier", target, None, ClassifierTags(), None, input_tags=InputTags())

    def fit(self, X, y):  # noqa: ARG002
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


class Peer:
    """What ``make`` returns is fitted by ``fit`` and asked by the attribute ``answers``."""

    def __init__(self, make, answers="predict_proba"):
        self._make, self._answers = make, answers

    def prepare(self):
        """Import what is needed."""
        self._make()

    def fit(self, p, y):
        self._fitted = self._make()
        self._fitted.fit(p, y)

    def predict(self, p):
        rows = np.asarray(getattr(self._fitted, self._answers)(p))
        return rows if rows.ndim == 2 else np.column_stack([1 - rows, rows])  # of two classes


class ScikitLearn(Peer):
    def __init__(self, method):
        self._method = method

    def prepare(self):
        import_module("sklearn.calibration")

    def fit(self, p, y):
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        frozen = FrozenEstimator(Passthrough(p.shape[1]))
        self._fitted = CalibratedClassifierCV(frozen, method=self._method).fit(p, y)

    def predict(self, p):
        return self._fitted.predict_proba(p)


class EachClass(Peer):
    """A binary method one-vs-rest, rows divided by their sums."""

    def __init__(self, make):
        self._make = make

    def fit(self, p, y):
        self._fitted = [self._make() for _ in range(p.shape[1])]
        for j, one in enumerate(self._fitted):
            one.fit(p[:, j : j + 1], (y == j).astype(int))

    def predict(self, p):
        rows = np.stack(
            [one.predict(p[:, j : j + 1]).reshape(-1) for j, one in enumerate(self._fitted)], axis=1
        )
        return rows / rows.sum(axis=1, keepdims=True)


class Marginal(Peer):
    """``train_calibration`` and ``calibrate``; rows, whose sums are not 1, are divided by them."""

    def __init__(self, name):
        self._name = name

    def prepare(self):
        import_module("calibration")

    def fit(self, p, y):
        import calibration

        self._fitted = getattr(calibration, self._name)(len(p), BINS)
        self._fitted.train_calibration(p, y)

    def predict(self, p):
        rows = np.asarray(self._fitted.calibrate(p))
        return rows / rows.sum(axis=1, keepdims=True)


class VennAbers(Peer):
    """All work is done when it predicts."""

    def __init__(self):
        pass

    def prepare(self):
        import_module("venn_abers")

    def fit(self, p, y):
        self._seen = p, y

    def predict(self, p):
        from venn_abers import VennAbersCalibrator

        scores, y = self._seen
        return VennAbersCalibrator().predict_proba(
            p_cal=scores, y_cal=y, p_test=p, va_type="one_vs_all"
        )


class TopLabel(Peer):
    """MAPIE calibrates the largest probability; the other classes share the rest as before."""

    def __init__(self, method):
        self._method = method

    def prepare(self):
        import_module("mapie.calibration")

    def fit(self, p, y):
        from mapie.calibration import TopLabelCalibrator

        self._fitted = TopLabelCalibrator(
            Passthrough(p.shape[1]), calibrator=self._method, cv="prefit"
        ).fit(p, y)

    def predict(self, p):
        top = self._fitted.predict_proba(p)
        rows, is_top = p.copy(), ~np.isnan(top)
        own = np.nansum(top, axis=1)
        rows[is_top] = 0
        rest = rows.sum(axis=1)
        rows *= np.divide(1 - own, rest, out=np.zeros_like(rest), where=rest > 0)[:, None]
        rows[is_top] = top[is_top]
        return rows


def _netcal(home, name):
    def make():
        return getattr(import_module(f"netcal.{home}"), name)()

    return lambda: Peer(make, "transform")


def _probmetrics(name, **parameters):
    def make():
        from probmetrics import calibrators

        return getattr(calibrators, name)(**parameters)

    return lambda: Peer(make)


def _one_vs_rest(name):
    from probmetrics import calibrators as found

    return found.MulticlassOneVsRestCalibrator(getattr(found, name)())


def _dirichletcal(home, name):
    def make():
        return getattr(import_module(f"dirichletcal.calib.{home}"), name)()

    return lambda: Peer(make)


def _betacal():
    from betacal import BetaCalibration

    return BetaCalibration()


def _splinecalib():
    from splinecalib import SplineCalib

    return SplineCalib()


QUIET = {"print_init_info": False}
PEERS = {
    ("scikit-learn", "temperature"): lambda: ScikitLearn("temperature"),
    ("scikit-learn", "isotonic"): lambda: ScikitLearn("isotonic"),
    ("scikit-learn", "sigmoid"): lambda: ScikitLearn("sigmoid"),
    ("netcal", "TemperatureScaling"): _netcal("scaling", "TemperatureScaling"),
    ("netcal", "LogisticCalibration"): _netcal("scaling", "LogisticCalibration"),
    ("netcal", "BetaCalibration"): _netcal("scaling", "BetaCalibration"),
    ("netcal", "IsotonicRegression"): _netcal("binning", "IsotonicRegression"),
    ("netcal", "HistogramBinning"): _netcal("binning", "HistogramBinning"),
    ("netcal", "BBQ"): _netcal("binning", "BBQ"),
    ("probmetrics", "TS"): _probmetrics("TemperatureScalingCalibrator"),
    ("probmetrics", "ETS"): _probmetrics("ETSCalibrator"),
    ("probmetrics", "VS"): _probmetrics("VectorScalingCalibrator"),
    ("probmetrics", "MS"): _probmetrics("MatrixScalingCalibrator"),
    ("probmetrics", "SVS"): _probmetrics("SVSCalibrator", **QUIET),
    ("probmetrics", "SMS"): _probmetrics("SMSCalibrator", **QUIET),
    ("probmetrics", "affine"): _probmetrics("BinaryLogisticCalibrator", type="affine"),
    ("probmetrics", "quadratic"): _probmetrics("BinaryLogisticCalibrator", type="quadratic"),
    ("probmetrics", "regularized affine"): _probmetrics("RegularizedAffineScalingCalibrator"),
    ("probmetrics", "regularized quadratic"): _probmetrics("RegularizedQuadraticScalingCalibrator"),
    ("probmetrics", "beta"): lambda: Peer(lambda: _one_vs_rest("BetacalCalibrator")),
    ("probmetrics", "isotonic"): _probmetrics("SklearnCalibrator", method="isotonic"),
    ("probmetrics", "histogram"): lambda: Peer(
        lambda: _one_vs_rest("BinaryHistogramBinningCalibrator")
    ),
    ("dirichletcal", "TemperatureScaling"): _dirichletcal("tempscaling", "TemperatureScaling"),
    ("dirichletcal", "VectorScaling"): _dirichletcal("vectorscaling", "VectorScaling"),
    ("dirichletcal", "MatrixScaling"): _dirichletcal("matrixscaling", "MatrixScaling"),
    ("dirichletcal", "FullDirichlet"): _dirichletcal("fulldirichlet", "FullDirichletCalibrator"),
    ("betacal", "BetaCalibration"): lambda: EachClass(_betacal),
    ("splinecalib", "SplineCalib"): lambda: Peer(_splinecalib, "calibrate"),
    ("venn-abers", "one_vs_all"): VennAbers,
    ("MAPIE", "TopLabelCalibrator"): lambda: TopLabel("isotonic"),
    ("uncertainty-calibration", "histogram"): lambda: Marginal("HistogramMarginalCalibrator"),
}
"""What makes each method, by package and name."""


def make(package, method, n_classes):  # noqa: ARG001
    return PEERS[package, method]()


def _netcal_ece(y, p):
    from netcal.metrics import ECE

    return ECE(BINS).measure(p, y)


def _torchmetrics_ece(y, p):
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    rows, labels = torch.from_numpy(p), torch.from_numpy(y)
    return multiclass_calibration_error(rows, labels, num_classes=p.shape[1], n_bins=BINS).item()


def _uncertainty_ece(y, p):
    import calibration

    return calibration.get_ece(p, y, num_bins=BINS)


def _relplot_ece(y, p):
    from relplot.metrics import binnedECE, multiclass_logits_to_confidences

    return binnedECE(*multiclass_logits_to_confidences(p, y, probs=True), nbins=BINS)


def _mapie_ece(y, p):
    from mapie.metrics.calibration import expected_calibration_error

    return expected_calibration_error((p.argmax(axis=1) == y).astype(int), p, num_bins=BINS)


def _scikit_learn(name, **parameters):
    def value(y, p):
        from sklearn import metrics

        return getattr(metrics, name)(y, p, labels=np.arange(p.shape[1]), **parameters)

    return value


def _probmetrics_metric(name):
    def value(y, p):
        import torch
        from probmetrics.metrics import Metrics

        rows, labels = torch.from_numpy(p), torch.from_numpy(y)
        return Metrics.from_names([name]).compute_all_from_labels_probs(labels, rows)[name].item()

    return value


METRICS = {
    ("netcal", "conf-ece"): _netcal_ece,
    ("torchmetrics", "conf-ece"): _torchmetrics_ece,
    ("uncertainty-calibration", "conf-ece"): _uncertainty_ece,
    ("relplot", "conf-ece"): _relplot_ece,
    ("MAPIE", "conf-ece"): _mapie_ece,
    ("scikit-learn", "nll"): _scikit_learn("log_loss"),
    ("scikit-learn", "brier"): _scikit_learn("brier_score_loss"),
    ("probmetrics", "nll"): _probmetrics_metric("logloss"),
    ("probmetrics", "brier"): _probmetrics_metric("brier"),
}
"""Metrics by package and our name for them: of labels and rows."""


def metric(package, name):
    return METRICS[package, name]
