"""CalArena: its files in, its contract kept, result files and win rates out."""

import csv
import json
import math
import warnings
from contextlib import suppress

import h5py
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant import errors
from calibrant._calibrators.methods import make_calibrator
from calibrant._cli.main import run
from calibrant.study import ArenaCalibrator, run_study, win_rates
from calibrant.study._calarena import METRICS, read_results
from calibrant.study._files import find_files, look_into
from calibrant.study._methods import ALL_METHODS
from conftest import methods_alone, refuses, simulate
from study.hdf5_files import N_CAL, write_benchmark, write_group

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torchmetrics
]

GROUPS = {
    "c10/net_a": {"n_classes": 3, "seed": 1},
    "c10/net.b": {"n_classes": 3, "seed": 2},
    "oct/net_a": {"n_classes": 4, "seed": 3},
}


@pytest.fixture
def home(tmp_path):
    write_benchmark(tmp_path / "toy-multiclass.h5", GROUPS)
    return tmp_path


def lines(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def literal_scores(y, rows):
    """The four metrics by their definitions."""
    n_rows, n_classes = rows.shape
    hot = np.eye(n_classes)[y]
    top, hits = rows.max(axis=1), rows.argmax(axis=1) == y
    if n_classes == 2:
        top, hits = rows[:, 1], y == 1
    bins = np.minimum((top * 15).astype(int), 14)
    gaps = [abs(np.sum(hits[bins == b]) - np.sum(top[bins == b])) for b in range(15)]
    with np.errstate(divide="ignore"):
        losses = -np.maximum(np.log(rows[np.arange(n_rows), y]), np.log(np.finfo("f4").tiny))
    return {
        "brier": np.mean(np.sum((rows - hot) ** 2, axis=1)),
        "logloss": losses.mean(),
        "ece-15": sum(gaps) / n_rows,
        "accuracy": np.mean(rows.argmax(axis=1) == y),
    }


def test_result_files_have_their_columns_and_our_numbers(home):
    run_study(home / "toy-multiclass.h5", home / "out", ["ts", "fir"], n_jobs=0)
    results = home / "out" / "calarena" / "toy-multiclass"
    names = ["Base-model.csv", "calibrant-fir.csv", "calibrant-ts.csv"]
    assert sorted(path.name for path in results.iterdir()) == names
    table = lines(results / "calibrant-ts.csv")
    assert list(table[0]) == [
        *("dataset", "model", "cal_size", "test_size", "n_classes"),
        *(f"calibrant-ts_{name}" for name in ("brier", "logloss", "ece-15", "accuracy", "time")),
    ]
    cases = [f"{one['dataset']}/{one['model']}" for one in table]
    assert cases == ["c10/net.b", "c10/net_a", "oct/net_a"]
    arrays = write_benchmark(home / "again.h5", GROUPS)["oct/net_a"]
    own = make_calibrator("ts", classes=range(4))
    own.fit(arrays["probas_cal"].astype(float), arrays["labels_cal"])
    expected = literal_scores(
        arrays["labels_test"], own.predict_proba(arrays["probas_test"].astype(float))
    )
    sizes = [table[2][name] for name in ("cal_size", "test_size", "n_classes")]
    assert sizes == [str(N_CAL), str(3 * N_CAL), "4"]
    for name, value in expected.items():
        assert float(table[2][f"calibrant-ts_{name}"]) == pytest.approx(value, rel=1e-9)
    assert float(table[2]["calibrant-ts_time"]) > 0
    assert lines(results / "Base-model.csv")[0]["Base-model_time"] == "0.0"


def test_binary_files_have_no_number_of_classes_and_the_error_of_one_class(tmp_path):
    source = tmp_path / "toy-binary.h5"
    how = {"n_classes": 2, "is_binary": True, "seed": 5}
    arrays = write_benchmark(source, {"toy/net": how})["toy/net"]
    run_study(source, tmp_path / "out", [], n_jobs=0)
    (line,) = lines(tmp_path / "out" / "calarena" / "toy-binary" / "Base-model.csv")
    assert "n_classes" not in line
    positive = arrays["probas_test"].astype(float)
    rows = np.stack([1 - positive, positive], axis=1)
    for name, value in literal_scores(arrays["labels_test"], rows).items():
        assert float(line[f"Base-model_{name}"]) == pytest.approx(value, rel=1e-9)


def test_zeros_cost_what_they_cost_there(tmp_path):
    """A probability of zero counts as float32's smallest, not as our 1e-12."""
    rows = np.array([[0.0, 1.0, 0.0], [0.5, 0.25, 0.25]], dtype=np.float32)
    both = {f"probas_{part}": rows for part in ("cal", "test")}
    both |= {f"labels_{part}": np.array([0, 0], dtype=np.int32) for part in ("cal", "test")}
    write_benchmark(tmp_path / "toy.h5", {"toy/net": both})
    table = run_study(tmp_path / "toy.h5", tmp_path / "out", [], n_jobs=0)
    (line,) = lines(tmp_path / "out" / "calarena" / "toy" / "Base-model.csv")
    assert float(line["Base-model_logloss"]) == pytest.approx((87.3365 + math.log(2)) / 2, rel=1e-5)
    assert table.wide("nll").iloc[0, 0] == pytest.approx((-math.log(1e-12) + math.log(2)) / 2)


def test_what_is_no_study_is_said(home):
    (home / "notes.txt").write_text("no predictions")
    with pytest.raises(errors.PredictionFileError, match="HDF5"):
        find_files(home / "notes.txt")
    write_benchmark(home / "empty.h5", {"toy/bad": {"labels_cal": None}})
    with pytest.raises(errors.PredictionFileError, match=r"no groups dataset/model.*labels_cal"):
        find_files(home / "empty.h5")
    files, skipped = find_files(home)
    assert len(files) == 3
    assert list(skipped) == ["empty.h5: toy/bad"]
    write_benchmark(home / "twice.h5", {"oct/net_a": {}})
    with pytest.raises(errors.PredictionFileError, match="oct/net_a is in"):
        find_files(home)


def save(folder, method, numbers, metric="brier"):
    """A result file: a number for each (dataset, model)."""
    folder.mkdir(exist_ok=True)
    rows = [f"dataset,model,cal_size,test_size,{method}_brier,{method}_{metric}"]
    rows += [f"{data},{model},10,20,0.5,{value}" for (data, model), value in numbers.items()]
    (folder / f"{method}.csv").write_text("\n".join(rows) + "\n")


CASES = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "x")]


def test_win_rates_count_strict_wins(tmp_path):
    for method, values in {"A": (1, 1, 1, 1), "B": (2, 1, 0, 3), "C": (3, 3, 3, 0)}.items():
        save(tmp_path, method, dict(zip(CASES, values, strict=True)), "logloss")
    rates = win_rates(tmp_path, metric="logloss")
    # A beats B in two (one tie), C in three; B beats A once, C in three; C beats both once.
    assert rates["score"].to_dict() == {"A": 5 / 8, "B": 4 / 8, "C": 2 / 8}
    assert rates.index.tolist() == ["A", "B", "C"]
    assert rates["experiments"].tolist() == [4, 4, 4]
    assert (rates["lower"] <= rates["score"]).all()
    assert (rates["score"] <= rates["upper"]).all()


def test_only_experiments_that_all_have_count(tmp_path):
    save(tmp_path, "A", dict.fromkeys(CASES, 1.0), "logloss")
    save(tmp_path, "B", {CASES[0]: 2.0}, "logloss")
    assert win_rates(tmp_path, metric="logloss")["experiments"].tolist() == [1, 1]
    save(tmp_path, "C", {("other", "z"): 2.0})
    with pytest.raises(errors.DataError, match=r"C\.csv has none of the experiments of A\.csv"):
        win_rates(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "dataset"),
        ("dataset,model,cal_size,test_size,TS_nll\na,x,1,2,1\n", "TS_brier"),
        ("dataset,model,cal_size,test_size,TS_brier\na,x,1,2,much\n", "much"),
        ("", "No columns"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    (tmp_path / "TS.csv").write_text(text)
    with pytest.raises(errors.DataError, match=rf"TS\.csv is not a result file.*{message}"):
        read_results(tmp_path)


def test_nothing_to_compare_is_refused(tmp_path):
    with pytest.raises(errors.DataError, match=tmp_path.name):
        win_rates(tmp_path)
    save(tmp_path, "A", dict.fromkeys(CASES, 1.0))
    with refuses("directories"):
        win_rates(tmp_path)
    with refuses("metric"):
        win_rates(tmp_path, metric="beauty")


def test_one_command_scores_us_there(home, monkeypatch, capsys):
    monkeypatch.setattr("calibrant.study._run.count_threads", lambda _: 0)
    theirs = home / "results"
    theirs.mkdir()
    run_study(home / "toy-multiclass.h5", home / "first", [], n_jobs=0)
    text = (home / "first" / "calarena" / "toy-multiclass" / "Base-model.csv").read_text()
    (theirs / "Other.csv").write_text(text.replace("Base-model_", "Other_"))
    source = str(home / "toy-multiclass.h5")
    command = ["study", source, "-o", str(home / "out"), "--methods", "ts", "--table-only"]
    assert run([*command, "--against", str(theirs)]) == 0
    shown = capsys.readouterr().out
    assert "Win rates by brier, 3 experiments:" in shown
    assert "Win rates by logloss, 3 experiments:" in shown
    assert "1.000 (1.00 to 1.00)  calibrant-ts" in shown
    assert run([*command, "--against", str(theirs), "--json"]) == 0
    brier, logloss = json.loads(capsys.readouterr().out)["win_rates"]
    assert (brier["metric"], logloss["metric"]) == ("brier", "logloss")
    assert {one["method"] for one in brier["methods"]} == {"Base-model", "Other", "calibrant-ts"}


def test_every_group_is_a_classifier(tmp_path):
    path = tmp_path / "toy-multiclass.h5"
    arrays = write_benchmark(path, {"toy/net": {}, "toy/a b": {"n_classes": 5}, "more/net": {}})
    found, skipped = look_into(path)
    assert skipped == {}
    assert [one.name for one in found] == ["more/net", "toy/a b", "toy/net"]
    one = found[1]
    assert (one.n_val, one.n_test, one.n_classes, one.is_binary) == (80, 240, 5, False)
    part = one.read("test")
    np.testing.assert_array_equal(part.scores, arrays["toy/a b"]["probas_test"])
    np.testing.assert_array_equal(part.labels, arrays["toy/a b"]["labels_test"])
    assert part.kind == "probabilities"


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_column_is_the_second_of_two_classes(tmp_path, shape):
    path = tmp_path / "toy-binary.h5"
    rows = np.array([0.25, 1.0, 0.0], dtype=np.float32)
    same = {f"probas_{part}": rows.reshape(shape) for part in ("cal", "test")}
    labels = {f"labels_{part}": np.array([0, 1, 0]) for part in ("cal", "test")}
    write_benchmark(path, {"toy/net": same | labels})
    (one,), _ = look_into(path)
    assert (one.n_val, one.n_test, one.n_classes, one.is_binary) == (3, 3, 2, True)
    assert one.read("val").scores.tolist() == [[0.75, 0.25], [0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"probas_test": None}, "'probas_test'"),
        ({"labels_cal": None}, "'labels_cal'"),
        ({"labels_cal": np.zeros(3, dtype=np.int32)}, "80 rows, but labels_cal has 3"),
        ({"labels_cal": np.zeros((80, 2))}, "labels_cal has shape (80, 2)"),
        ({"probas_test": np.zeros((240, 4))}, "probas_test has (240, 4)"),
        ({"probas_cal": np.zeros((80, 3, 1))}, "1 or 2 dimensions"),
        ({"probas_cal": np.array([b"a"] * 80)}, "dtype"),
        ({"probas_cal": np.zeros((80, 0))}, "(80, 0)"),
    ],
)
def test_groups_of_another_kind_are_skipped_with_a_reason(tmp_path, change, fact):
    path = tmp_path / "toy.h5"
    write_benchmark(path, {"toy/bad": change})
    found, skipped = look_into(path)
    assert found == []
    assert fact in skipped["toy.h5: toy/bad"]


def test_links_to_other_files_are_not_followed(tmp_path):
    """A stranger's file must not read what is elsewhere on this machine."""
    write_benchmark(tmp_path / "secret.h5", {"toy/net": {}})
    with h5py.File(tmp_path / "toy.h5", "w") as file:
        write_group(file, "own/net")
        file["toy"] = h5py.ExternalLink("secret.h5", "/toy")
        file["own/soft"] = h5py.SoftLink("/own/net")
        write_group(file, "own/linked", probas_cal=None)
        file["own/linked/probas_cal"] = h5py.ExternalLink("secret.h5", "/toy/net/probas_cal")
        write_group(file, "own/virtual", probas_cal=None)
        layout = h5py.VirtualLayout((80, 3), np.float32)
        layout[:] = h5py.VirtualSource("secret.h5", "/toy/net/probas_cal", (80, 3))
        file["own/virtual"].create_virtual_dataset("probas_cal", layout)
        write_group(file, "own/outside", probas_cal=None)
        elsewhere = [("secret.h5", 0, 80 * 3 * 4)]
        file["own/outside"].create_dataset("probas_cal", (80, 3), np.float32, external=elsewhere)
    found, skipped = look_into(tmp_path / "toy.h5")
    assert [one.name for one in found] == ["own/net"]
    assert [*skipped] == [f"toy.h5: own/{name}" for name in ("linked", "outside", "virtual")]


with warnings.catch_warnings(), suppress(ImportError):
    warnings.simplefilter("ignore")  # of what it imports
    import probmetrics.calibrators  # noqa: F401


P, Y = simulate(300, 4)
SINGLE = P.astype(np.float32)
LABELS = Y.astype(np.int32)


@pytest.mark.parametrize("method", methods_alone())
def test_every_method_answers_as_itself(method):
    found = ArenaCalibrator(method).fit(SINGLE, LABELS).predict_proba(SINGLE)
    rows = SINGLE.astype(np.float64)
    own = make_calibrator(method, classes=np.arange(4)).fit(rows, Y)
    np.testing.assert_array_equal(found, own.predict_proba(rows))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-9)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_arrays_of_one_column_are_the_second_of_two_classes(shape):
    p, y = simulate(300, 2)
    alone = p[:, 1].reshape(shape)
    found = ArenaCalibrator("fir").fit(alone, y).predict_proba(alone)
    both = np.stack([1 - p[:, 1], p[:, 1]], axis=1)
    np.testing.assert_array_equal(found, calibrant.FlattenedIsotonic().fit(both, y).transform(both))


def test_calibrators_with_parameters_are_left_as_they_were():
    given = calibrant.TemperatureScaling(prior_strength=0.0)
    found = ArenaCalibrator(given).fit(SINGLE, LABELS)
    assert found.calibrator_.prior_strength == clone(found).calibrator.prior_strength == 0.0
    assert not hasattr(given, "map_")
    assert given.classes is None


def test_what_cannot_be_is_said():
    with refuses("calibrator"):
        ArenaCalibrator(calibrant.TemperatureScaling(scores="logits")).fit(SINGLE, LABELS)
    with refuses("method", value="magic"):
        ArenaCalibrator("magic").fit(SINGLE, LABELS)
    with pytest.raises(NotFittedError):
        ArenaCalibrator().predict_proba(SINGLE)


@pytest.fixture(scope="module")
def ours():
    """Our module for probmetrics, if that is installed."""
    pytest.importorskip("probmetrics.calibrators")
    from calibrant.study import probmetrics

    return probmetrics


@pytest.mark.parametrize("method", methods_alone())
def test_every_method_can_be_entered(method, ours):
    entries = ours.calibrators()
    assert list(entries) == [f"calibrant-{name}" for name in ALL_METHODS]
    entry = entries[f"calibrant-{method}"]()
    assert type(entry.calibrator) is methods_alone()[method]
    base = ours.theirs.Calibrator
    assert isinstance(entry, base)
    assert (type(entry).fit, type(entry).predict_proba) == (base.fit, base.predict_proba)
    found = clone(entry).fit(SINGLE, Y).predict_proba(SINGLE)
    own = ArenaCalibrator(method).fit(SINGLE, Y).predict_proba(SINGLE)
    np.testing.assert_array_equal(found, own)


def test_tensors_go_the_same_way(ours):
    import torch
    from probmetrics.distributions import CategoricalProbs

    entry = ours.calibrator("ts", prior_strength=0.0)
    rows = CategoricalProbs(torch.as_tensor(P))
    found = entry.fit_torch(rows, torch.as_tensor(Y)).predict_proba_torch(rows).get_probs()
    own = ArenaCalibrator(calibrant.TemperatureScaling(prior_strength=0.0)).fit(P, Y)
    np.testing.assert_array_equal(found.numpy(), own.predict_proba(P))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_numbers_of_result_files_are_those_of_their_metrics(tmp_path, n_classes, ours):
    import torch
    from probmetrics.metrics import Metrics

    arrays = write_benchmark(tmp_path / "toy.h5", {"toy/net": {"n_classes": n_classes}})["toy/net"]
    run_study(tmp_path / "toy.h5", tmp_path / "out", ["ts"], n_jobs=0)
    found = read_results(tmp_path / "out" / "calarena" / "toy")["calibrant-ts"].iloc[0]
    entry = ours.calibrator("ts").fit(arrays["probas_cal"], arrays["labels_cal"])
    rows = entry.predict_proba(arrays["probas_test"])
    expected = Metrics.from_names(list(METRICS)).compute_all_from_labels_probs(
        torch.tensor(arrays["labels_test"], dtype=torch.int64), torch.tensor(rows)
    )
    for metric in METRICS:
        assert found[metric] == pytest.approx(expected[metric].item(), abs=1e-6), metric
