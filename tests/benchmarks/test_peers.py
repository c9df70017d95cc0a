"""Beside other packages: cells, limits and files; of the packages only scikit-learn is there."""

import json
from argparse import Namespace
from unittest.mock import Mock

import pytest

from benchmarks.scripts import importing
from conftest import methods_alone

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
pytest.importorskip("resource", reason="not on Windows")

with importing() as load:
    names = "defaults growth peers_install our_methods peers peer_methods peers_worker"
    defaults, growth, install, ours, peers, theirs, worker = map(load, names.split())
    SIDES = {name: worker.Side(module) for name, module in peers.MODULES.items()}

INSTALLED = {"scikit-learn": {"version": "1"}, "betacal": {"error": "ERROR: no wheel"}}


class InThisProcess:
    """A worker without a process of its own."""

    def __init__(self, side):
        self.side = side

    def ask(self, _=None, **question):
        return self.side.answer(**question)


@pytest.fixture
def both(monkeypatch):
    found = peers.Both("python", 5, 0.0)
    found.workers = {name: InThisProcess(side) for name, side in SIDES.items()}
    monkeypatch.setattr(found, "fresh", lambda *_, **__: {"fit": 1, "predict": 2})
    return found


def asked(**options):
    usual = {"sizes": ["300 x 3"], "again": False, "limit": 5.0}
    return Namespace(**usual | options)


def test_pairs_become_cells_that_are_not_measured_again(both, tmp_path, capsys):
    results = peers.Results(tmp_path / "found.json")
    options = asked(packages=["scikit-learn", "betacal"], methods=["ir-ovr", "beta-ovr"])
    peers.measure_pairs(both, results, INSTALLED, options)
    isotonic, beta = json.loads((tmp_path / "found.json").read_text())["pairs"]
    assert (isotonic["ours"], isotonic["package"]) == ("ir-ovr", "scikit-learn")
    for found in (isotonic["fit"], isotonic["predict"]):
        assert min(found["ratio"], found["ours"], found["theirs"]) > 0
        assert found["repeats"] >= 3
    assert isotonic["peak_bytes"]["theirs"] == {"fit": 1, "predict": 2}
    assert beta["fit"] == {"theirs": "not installed: ERROR: no wheel"}
    assert "ir-ovr, scikit-learn isotonic, 300 x 3" in capsys.readouterr().out
    peers.measure_pairs(both, peers.Results(tmp_path / "found.json"), INSTALLED, options)
    assert capsys.readouterr().out == ""
    options = asked(packages=["scikit-learn"], methods=None)
    peers.measure_metrics(both, results, INSTALLED, options)
    nll, brier = results.found["metrics"]
    assert nll["values"]["ours"] == pytest.approx(nll["values"]["theirs"], rel=1e-9)
    assert 3 * brier["values"]["ours"] == pytest.approx(brier["values"]["theirs"], rel=1e-9)


def test_a_side_that_fails_is_told_beside_the_other(both):
    for failure, text in (
        (peers.TooLong(), "> 5 s"),
        (RuntimeError("died"), "its process died"),
        ([{"error": "ValueError: no"}], "ValueError: no"),
    ):
        both.workers = {"ours": Mock(), "theirs": Mock()}
        both.workers["ours"].ask.return_value = {"cpu": 0.5}
        both.workers["theirs"].ask.side_effect = failure
        assert both.compare(ours={}, theirs={}) == {"ours": 0.5, "theirs": text}


def test_every_method_of_ours_and_every_pair_is_there():
    assert {name: cls.__name__ for name, cls in methods_alone().items()} == ours.CLASSES
    for own, package, method in peers.PAIRS:
        assert own.partition(" ")[0] in ours.CLASSES
        assert (package, method) in theirs.PEERS
    assert {*peers.METRICS} == {*theirs.METRICS}
    assert {name for _, name in peers.METRICS} <= {*ours.METRICS}
    packages = {package for package, _ in (*theirs.PEERS, *theirs.METRICS)}
    assert packages == {*install.CALLS} - {"torch"}
    for name in ("torch", "netcal", "probmetrics", "torchmetrics"):  # which may pull it
        assert all("torch==2.13.0" in call for call in install.CALLS[name])


def test_growth_stops_at_the_first_size_that_takes_too_long(monkeypatch):
    def fresh(_, n_rows, *__):
        one = {"seconds": (n_rows / 1000) ** 1.5, "peak_bytes": n_rows}
        return {"fit": one, "predict": one} if n_rows <= 10_000 else None

    monkeypatch.setattr(growth, "fresh", fresh)
    fit, predict = growth.grow("fir", "rows", (1_000, 3_000, 10_000, 30_000, 100_000), 9)
    assert (fit["what"], predict["what"]) == ("fit", "predict")
    assert fit["sizes"] == [1_000, 3_000, 10_000]
    assert fit["left_out"] == [30_000, 100_000]
    assert fit["peak_bytes"] == [1_000, 3_000, 10_000]
    assert fit["slope"] == pytest.approx(1.5)


def test_a_cell_of_growth_is_a_fit_and_a_prediction_and_default_fits_stand_beside_a_sort():
    cell = growth.cell("fir", 2_000, 3)
    assert {*cell} == {"fit", "predict"}
    assert all(one["seconds"] > 0 <= one["peak_bytes"] for one in cell.values())
    found = defaults.ratio("fir", "300 x 3", 0.0)
    assert found["ratio_to_argsort"] > 0
    assert found["seconds"] > 0 < found["argsort_seconds"]
    assert found["repeats"] >= 1
