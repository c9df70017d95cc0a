"""A method in one class, and all that finds it; run in a process of its own by ``test_methods``."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from calibrant import model_file, plots
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.methods import methods
from calibrant._calibrators.parameters import fitted, number
from calibrant._gate._simplex import SimplexBatch
from calibrant._maps import TemperatureMap
from calibrant._solvers.report import SolverReport
from calibrant.datasets import simulated_scores


class ToyScaling(Calibrator):
    """Divides the logits by a number that was given."""

    method = "toy"
    title = "Toy"
    summary = "a temperature that is given"
    good_for = "showing how a method is added"

    temperature: float = number(default=2.0, low=0.1)
    map_: TemperatureMap = fitted()

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        report = SolverReport("none", 0.0, 0.0, 0.0, 0, 0.0)
        return {"map_": TemperatureMap(1 / self.temperature, -27.6, batch.kind)} | {
            "solver_report_": report
        }


def main() -> None:
    """Find it everywhere."""
    import calibrant
    from calibrant._cli.main import cli
    from calibrant.report import compare
    from calibrant.study import run_study

    scores, y = simulated_scores(400, power=2.0)
    toy = ToyScaling().fit(scores, y)
    assert list(methods())[-1] == "toy"
    assert calibrant.ToyScaling is ToyScaling
    assert "ToyScaling" in calibrant.__all__
    loaded = model_file.loads(model_file.dumps(toy))
    np.testing.assert_array_equal(loaded.predict_proba(scores), toy.predict_proba(scores))
    assert plots.compute_map(toy)  # drawn by its map
    home = Path(tempfile.mkdtemp())
    parts = {"val_probs": scores, "val_labels": y, "test_probs": scores, "test_labels": y}
    np.savez(home / "small_toy.npz", **parts)
    np.savez(home / "val.npz", probs=scores, labels=y)
    assert "toy" in run_study(home, home / "out", ["toy"], n_jobs=0).methods
    assert "toy" in compare(y, scores, y, scores, ["toy"]).methods
    run = CliRunner().invoke(
        cli, ["fit", str(home / "val.npz"), "-m", "toy", "-o", str(home / "toy.calibrant")]
    )
    assert run.exit_code == 0, run.output
    assert model_file.describe(home / "toy.calibrant")["class"] == "ToyScaling"
    shown = CliRunner().invoke(cli, ["inspect", str(home / "toy.calibrant"), "--json"])
    assert json.loads(shown.output)["method"] == "toy", shown.output


if __name__ == "__main__":
    main()
    sys.exit(0)
