"""Make golden model files: one for each calibrator, with the predictions it must give for ever.

Run as ``python tests/golden/make.py`` when a calibrator or a format version is new. Files that are
there are never made again: that old files load is what they prove.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from calibrant import TemperatureScaling, model_file  # noqa: E402
from calibrant.model_file import _format as frame  # noqa: E402
from calibrators import test_features, test_grouped  # noqa: E402
from model_file.catalogue import METHODS, fitted, probe, quietly, scores_of  # noqa: E402


def fit_daily():
    """Return a calibrator with the rows that it was fitted to."""
    scores, y = scores_of(n_rows=60)
    return quietly(TemperatureScaling().partial_fit, scores[:30], y[:30])


def main():
    """Write the files that are missing."""
    for method in (*METHODS, "grouped", "features", "daily"):
        name = f"{method}.calibrant"
        path = HERE / f"{frame.MAJOR}.{frame.WITH_MORE}" / name  # the format of what is fitted now
        path.parent.mkdir(exist_ok=True)
        if any(HERE.glob(f"*/{name}")):
            continue
        own = {"grouped": test_grouped.fit, "features": test_features.fit, "daily": fit_daily}
        calibrator = own[method]() if method in own else fitted(method)
        rows = probe(calibrator, n_rows=3)
        names = [*["north", "east", "south", "west"] * 3][: len(rows)]
        groups = {"groups": names} if method == "grouped" else {}
        if method == "features":
            groups = {"features": [[30.0 * i, name] for i, name in enumerate(names)]}
        model_file.save(calibrator, path, sample=method == "daily")
        expected = {
            "sha256": model_file.describe(path)["sha256"],
            "classes": calibrator.classes_.tolist(),
            "rows": rows.tolist(),
            "predictions": calibrator.predict_proba(rows, **groups).tolist(),
            **groups,
        }
        path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
