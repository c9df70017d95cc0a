"""Our calibrators and metrics under the contract of ``peer_methods``."""

import numpy as np

import calibrant

CLASSES = {
    "na-fir": "NormalizationAwareIsotonic",
    "scir": "SortedCumulativeIsotonic",
    "fir": "FlattenedIsotonic",
    "ir-ovr": "OneVsRestIsotonic",
    "ts": "TemperatureScaling",
    "vs": "VectorScaling",
    "ms": "MatrixScaling",
    "dirichlet": "DirichletCalibration",
    "platt-ovr": "OneVsRestPlatt",
    "beta-ovr": "OneVsRestBeta",
    "hb-ovr": "OneVsRestHistogram",
    "bbq-ovr": "OneVsRestBBQ",
    "scw": "SharedClasswise",
    "m2b-hb": "TopLabelHistogram",
    "m2b-ir": "TopLabelIsotonic",
    "structured": "StructuredScaling",
    "two-class": "TwoClassScaling",
    "spline": "MonotoneSpline",
    "auto": "AutoCalibrator",
}
"""By name, as a user would import them: the registry of methods imports all."""

FORMS = {"structured diagonal": "diagonal", "structured matrix": "matrix"}
METRICS = {
    "conf-ece": "confidence_ece",
    "nll": "negative_log_likelihood",
    "brier": "brier_score",
}


class Own:
    def __init__(self, method, n_classes):
        parameters = {"form": FORMS[method]} if method in FORMS else {}
        self._name = CLASSES[method.partition(" ")[0]]
        self._parameters = {"classes": np.arange(n_classes), "n_jobs": 1, **parameters}

    def prepare(self):
        return getattr(calibrant, self._name, None) or getattr(calibrant.study, self._name)

    def fit(self, p, y):
        self._calibrator = self.prepare()(**self._parameters).fit(p, y)

    def predict(self, p):
        return self._calibrator.predict_proba(p)


def make(package, method, n_classes):  # noqa: ARG001
    return Own(method, n_classes)


def metric(package, name):  # noqa: ARG001
    from calibrant import metrics

    function = getattr(metrics, METRICS[name])
    return lambda y, p: function(y, p, classes=np.arange(p.shape[1]))
