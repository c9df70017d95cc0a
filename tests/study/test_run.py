"""A study as a whole: files in, one table out, whatever happens on the way."""

import math
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from calibrant import metrics
from calibrant._calibrators.methods import make_calibrator, methods
from calibrant.study import _run as module
from calibrant.study import read_table, run_study
from calibrant.study._cell import MEASURED, Cell, Outcome, cell_versions, measure
from calibrant.study._files import find_files, look_at
from calibrant.study._methods import DEFAULT_METHODS, PAPER_METHODS
from calibrant.study._run import _check_methods, longest_first
from calibrant.study._workers import compute
from conftest import methods_alone, needs_pages, refuses, simulate
from study.work import work

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

QUICK = ("ts", "fir")


def arrays_of(scores, y, val=slice(80), test=slice(80, None), kind="probs"):
    parts = {"val": val, "test": test}
    return {f"{part}_{kind}": scores[own] for part, own in parts.items()} | {
        f"{part}_labels": y[own] for part, own in parts.items()
    }


def save(path, *, n_classes=3, seed=0, as_logits=False, **others):
    p, y = simulate(320, n_classes, seed)
    arrays = arrays_of(np.log(p), y, kind="logits") if as_logits else arrays_of(p, y)
    np.savez(path, **arrays | others)
    return p, y


@pytest.fixture
def home(tmp_path):
    """A directory as real ones are: predictions and other things."""
    data = tmp_path / "data"
    data.mkdir()
    save(data / "toy_small.npz", seed=1)
    save(data / "toy_wide_net.npz", n_classes=6, seed=2, as_logits=True)
    (data / "README.md").write_text("# what these files are")
    (data / "corpus_toy.tsv.gz").write_bytes(b"not predictions")
    return data


def in_studies():
    return [metric for metric in metrics.METRICS.values() if "study" in metric.tables]


def values(table):
    return table.frame.drop(columns="seconds").to_dict("records")


def test_table_has_every_metric_of_every_cell(home, tmp_path):
    out = tmp_path / "out"
    table = run_study(home, out, n_jobs=0)
    assert table.cases == [("toy", "small"), ("toy", "wide_net")]
    assert table.methods == list(DEFAULT_METHODS)
    assert len(table.frame) == 2 * 9 * len(MEASURED)
    assert set(table.metrics) == set(MEASURED)
    assert np.isfinite(table.frame["value"]).all()
    assert (table.frame["seconds"] >= 0).all()
    assert set(table.frame["versions"]) == {cell_versions()}
    assert not (out / "study.log").exists()
    assert read_table(out / "study.csv") == read_table(out / "study.parquet") == table
    two = [run_study(home, tmp_path / str(n), QUICK, n_jobs=n) for n in (0, 2)]
    assert values(two[0]) == values(two[1])


def test_numbers_are_those_of_the_calibrators_and_metrics(home):
    p, y = simulate(320, 3, 1)
    outcome = measure(Cell(look_at(home / "toy_small.npz"), "na-fir", 0))
    out = make_calibrator("na-fir").fit(p[:80], y[:80]).predict_proba(p[80:])
    plain, binned = {"": {}}, {"": {}, "-10": {"n_bins": 10}, "-25": {"n_bins": 25}}
    assert outcome.metrics == {
        f"{metric.short}{suffix}": getattr(metrics, metric.id)(y[80:], out, **bins)
        for metric in in_studies()
        for suffix, bins in (binned if metric.is_binned else plain).items()
    }


@needs_pages
def test_the_page_lists_the_metrics():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "study.md").read_text()
    listed = re.search(r"^Metrics are (.*?) \(", text, re.MULTILINE).group(1)
    listed = [name.removesuffix(" score") for name in re.split(", | and ", listed)]
    assert listed == [metric.title for metric in in_studies()]


def test_logits_are_softmaxed_where_there_are_no_probabilities(home, tmp_path):
    p, y = simulate(320, 6, 2)
    file = look_at(home / "toy_wide_net.npz")
    raw = measure(Cell(file, "uncalibrated", 0))
    expected = metrics.negative_log_likelihood(y[80:], p[80:])
    assert raw.metrics["nll"] == pytest.approx(expected, rel=1e-12)
    assert raw.seconds == 0.0
    scaled = measure(Cell(file, "ts", 0)).metrics["nll"]
    direct = make_calibrator("ts", scores="logits").fit(np.log(p[:80]), y[:80])
    out = direct.predict_proba(np.log(p[80:]))
    assert scaled == metrics.negative_log_likelihood(y[80:], out)
    # The logits of this file are of another classifier.
    zeros = {"val_logits": np.zeros((80, 3)), "test_logits": np.zeros((240, 3))}
    p, y = save(tmp_path / "a_b.npz", **zeros)
    both = measure(Cell(look_at(tmp_path / "a_b.npz"), "uncalibrated", 0))
    assert both.metrics["accuracy"] == metrics.accuracy(y[80:], p[80:])


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_val_part_may_lack_classes(tmp_path, method):
    p, y = simulate(400, 5, 3)
    seen = np.flatnonzero(y[:200] != 2)
    np.savez(tmp_path / "a_b.npz", **arrays_of(p, y, seen, slice(200, None)))
    outcome = measure(Cell(look_at(tmp_path / "a_b.npz"), method, 0))
    assert outcome.error is None
    assert math.isfinite(outcome.metrics["nll"])


def run_counting(home, out, monkeypatch, methods=QUICK, **options):
    """Run a study; return the cells that it computed."""
    computed = []

    def counting(cell):
        computed.append(f"{cell.file.path.stem}:{cell.method}")
        return measure(cell)

    with monkeypatch.context() as patch:
        patch.setattr(module, "measure", counting)
        run_study(home, out, methods, n_jobs=0, **options)
    return computed


def test_only_what_changed_is_run_again(home, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert len(run_counting(home, out, monkeypatch)) == 6
    table = read_table(out / "study.csv")
    assert run_counting(home, out, monkeypatch) == []
    assert read_table(out / "study.csv") == table
    save(home / "toy_small.npz", seed=5)
    changed = run_counting(home, out, monkeypatch)
    assert sorted(changed) == ["toy_small:fir", "toy_small:ts", "toy_small:uncalibrated"]
    save(home / "new_model.npz", seed=6)
    assert len(run_counting(home, out, monkeypatch)) == 3
    more = run_counting(home, out, monkeypatch, methods=(*QUICK, "vs"))
    assert {name.partition(":")[2] for name in more} == {"vs"}
    assert len(run_counting(home, out, monkeypatch, seed=1)) == 9


def test_a_record_that_is_damaged_or_of_another_version_is_run_again(home, tmp_path, monkeypatch):
    run_study(home, tmp_path / "out", ["ts"], n_jobs=0)
    path = tmp_path / "out" / "cells" / "toy_small__ts.json"
    older = path.read_bytes().replace(b'"calibrant ', b'"calibrant 9')
    for content in (older, b"", b"{", b"[]", b"null", b'{"format": 1}', b"\xff"):
        path.write_bytes(content)
        assert run_counting(home, tmp_path / "out", monkeypatch, ["ts"]) == ["toy_small:ts"]


def test_a_file_that_no_method_can_use_gives_nan_and_a_line_in_the_log(home, tmp_path):
    p, y = simulate(320, 3)
    p[7] = np.nan
    np.savez(home / "bad_rows.npz", **arrays_of(p, y))
    said = []
    table = run_study(home, tmp_path / "out", ["ts"], n_jobs=0, message=said.append)
    frame = table.frame.set_index(["dataset", "method"])[["value", "seconds"]]
    assert frame.loc["bad", "ts"].isna().all(axis=None)
    assert frame.loc["toy"].notna().all(axis=None)
    assert any("bad_rows: ts failed: NonFiniteError: " in line for line in said)
    log = (tmp_path / "out" / "study.log").read_text()
    assert all(line in log for line in said)


def test_failed_cells_are_run_again_only_if_asked(home, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(module, "measure", lambda _: Outcome(error="ValueError: no"))
        run_study(home, out, ["ts"], n_jobs=0)
    assert run_counting(home, out, monkeypatch, ["ts"]) == []
    assert len(run_counting(home, out, monkeypatch, ["ts"], retry_failed=True)) == 4
    assert run_counting(home, out, monkeypatch, ["ts"], retry_failed=True) == []


def test_files_that_are_no_predictions_are_skipped_with_a_reason(home, tmp_path):
    (home / "broken_zip.npz").write_bytes(b"PK\x03\x04 cut off")
    np.savez(home / "a_other.npz", weights=np.ones(3))
    np.savez(home / "plain.npz", probs=np.ones((2, 2)) / 2, labels=[0, 1])
    flat, labels = np.ones(4), np.zeros(4, dtype=int)
    np.savez(
        home / "a_flat.npz", val_probs=flat, val_labels=labels, test_probs=flat, test_labels=labels
    )
    with zipfile.ZipFile(home / "a_cut.npz", "w") as archive:
        for name in ("val_probs.npy", "test_probs.npy", "val_labels.npy", "test_labels.npy"):
            archive.writestr(name, b"\x93NUMPY\x01\x00")
    files, reasons = find_files(home)
    small, wide = files
    assert (small.name, small.n_val, small.n_test, small.n_classes) == ("toy_small", 80, 240, 3)
    assert (wide.dataset, wide.model, wide.n_classes) == ("toy", "wide_net", 6)
    names = [
        cell.name for cell in longest_first(Cell(f, m, 0) for f in files for m in (*QUICK, "ms"))
    ]
    assert (names[0], names[-1]) == ("toy_wide_net__ms", "toy_small__ts")  # ms: pairs of classes
    assert "damaged" in reasons["broken_zip.npz"]
    assert "val_labels" in reasons["a_other.npz"]
    assert "dataset_model.npz" in reasons["plain.npz"]
    assert "(4,)" in reasons["a_flat.npz"]
    assert "damaged" in reasons["a_cut.npz"]
    said = []
    run_study(home, tmp_path / "out", ["ts"], n_jobs=0, message=said.append)
    assert [line.partition(" ")[0] for line in said] == sorted(reasons)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"directory": "nowhere"}, "scores"),
        ({"directory": "."}, "scores"),
        ({"methods": ["ts", "magic"]}, "method"),
        ({"methods": "ts"}, "methods"),
        ({"n_jobs": -1}, "n_jobs"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_bad_arguments_are_errors_before_anything_is_written(
    home, tmp_path, monkeypatch, change, argument
):
    monkeypatch.chdir(tmp_path)
    arguments = {"directory": home, "output": tmp_path / "out", "n_jobs": 0} | change
    with refuses(argument, ValueError):
        run_study(**arguments)
    assert not (tmp_path / "out").exists()


def test_a_death_becomes_a_failed_cell(home, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "compute", lambda _, tasks, __: [(task, None) for task in tasks])
    table = run_study(home, tmp_path / "out", ["ts"], n_jobs=2)
    assert table.frame["value"].isna().all()
    assert "toy_small: ts failed: its process died" in (tmp_path / "out/study.log").read_text()


# Processes: what their death costs, and when they end


def test_death_of_a_process_costs_its_own_task_alone(tmp_path):
    once = f"die once {tmp_path / 'marker'}"
    found = dict(compute(work, [1, "die", 2, once, 3, 4], 2))
    assert found == {1: 2, 2: 4, 3: 6, 4: 8, "die": None, once: "alive"}


@pytest.mark.slow
def test_processes_that_cannot_start_are_an_error(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from calibrant.study._workers import compute\nprint(list(compute(abs, [1, 2], 1)))\n"
    )
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert out.returncode == 1
    assert 'if __name__ == "__main__"' in out.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_processes_end_with_their_parent(tmp_path):
    """Which is interrupted while its process computes something that never ends."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from calibrant.study._workers import compute\n"
        "def busy(path):\n"
        "    Path(path).write_text(str(os.getpid()))\n"
        "    while True: time.sleep(0.01)\n"
        "if __name__ == '__main__': list(compute(busy, [sys.argv[1]], 1))\n"
    )
    note = tmp_path / "pid"
    command = [sys.executable, script, note]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        wait_until(lambda: note.exists() and note.read_text())
        worker = int(note.read_text())
        assert is_alive(worker)
        parent.send_signal(signal.SIGINT)
    wait_until(lambda: not is_alive(worker))


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_methods_of_the_paper_are_the_default_and_all_means_all():
    assert _check_methods(None) == DEFAULT_METHODS
    own = [name for name in methods(study=True) if name.endswith("-paper")]
    assert _check_methods("all") == ("uncalibrated", *methods_alone(), *own)
    assert _check_methods(["ts", "na-fir-slsqp"]) == ("uncalibrated", "ts", "na-fir-slsqp")
