"""What ``peers.py`` runs in both environments: ``peers_worker.py our_methods`` or ``peer_methods``.

It answers a line of JSON for each that it reads. ``peers_worker.py MODULE first '{"method": ...}'``
and ``memory`` are for processes that have done nothing before.
"""

import json
import os
import sys
import warnings
from functools import cache
from importlib import import_module
from time import perf_counter, process_time

import numpy as np

from measure import peak_bytes_of, read_part, rows_of, seconds_of
from workers import answer_all

FITTED = {}
SMALL = "300 x 3"


class Side:
    """Methods and metrics of one environment."""

    def __init__(self, module):
        self.module = import_module(module)

    def answer(self, do, **what):
        if do in {"fit", "predict", "both"}:
            self._warm_up(what["package"], what["method"])
        return getattr(self, do)(**what)

    @cache  # noqa: B019  (there is one side in a process)
    def _warm_up(self, package, method):
        """Import and compile whatever it needs."""
        self._fit(package, method, SMALL).predict(rows_of(SMALL)[0])

    def _fit(self, package, method, source):
        p, y = rows_of(source)
        FITTED[package, method, source] = own = self.module.make(package, method, p.shape[1])
        own.fit(p, y)
        return own

    def fit(self, package, method, source):
        rows_of(source)  # made before the clock starts
        return seconds_of(lambda: self._fit(package, method, source))

    def predict(self, package, method, source):
        own = FITTED.get((package, method, source)) or self._fit(package, method, source)
        return seconds_of(lambda: own.predict(rows_of(source)[0]))

    def both(self, package, method, source):
        """A fit and a prediction together, for methods that do nothing before they predict."""
        p, _ = rows_of(source)
        return seconds_of(lambda: self._fit(package, method, source).predict(p))

    def metric(self, package, name, source):
        p, y = rows_of(source)
        function = self.module.metric(package, name)
        function(*reversed(rows_of(SMALL)))  # imports
        return seconds_of(lambda: function(y, p)) | {"value": float(function(y, p))}

    def forget(self):
        FITTED.clear()
        rows_of.cache_clear()
        return {}

    def quality(self, package, method, file, out):
        """Fit to the val part of a file, and write predictions of its test part."""
        (p, y), (new, _) = read_part(file, "val"), read_part(file, "test")
        own = self.module.make(package, method, p.shape[1])
        began, processor = perf_counter(), process_time()
        own.fit(p, y)
        seconds = {"clock": perf_counter() - began, "cpu": process_time() - processor}
        rows = np.asarray(own.predict(new), dtype=np.float64)
        if rows.shape != new.shape or not np.isfinite(rows).all():
            raise ValueError(f"predictions of shape {rows.shape} with NaN or of another shape")
        np.save(out, rows)
        return seconds

    def first(self, package, method, source):
        """Seconds of a process for its imports, and for its first fit and prediction."""
        p, y = rows_of(source)
        own = self.module.make(package, method, p.shape[1])
        began = process_time()
        own.prepare()
        imported = process_time()
        own.fit(p, y)
        own.predict(p)
        return {"import": imported - began, "call": process_time() - imported}

    def memory(self, package, method, source):
        """Bytes that a fit and a prediction need beyond the data and what is imported."""
        self._warm_up(package, method)
        p, y = rows_of(source)
        own = self.module.make(package, method, p.shape[1])
        fit = peak_bytes_of(lambda: own.fit(p, y))
        return {"fit": fit, "predict": peak_bytes_of(lambda: own.predict(p))}


def main():
    answers = os.fdopen(os.dup(1), "w")
    for output in (1, 2):  # what packages print is no answer
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    warnings.simplefilter("ignore")
    questions = sys.stdin
    if len(sys.argv) > 2:
        questions = [json.dumps({"do": sys.argv[2], **json.loads(sys.argv[3])})]
    answer_all(Side(sys.argv[1]).answer, questions, answers)


if __name__ == "__main__":
    main()
