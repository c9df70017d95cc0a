"""The command line from outside: files in, files and exit codes out."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibrant import FlattenedIsotonic, errors, model_file
from calibrant._calibrators import methods
from calibrant._cli.main import cli, run
from calibrant.metrics import ranked_probability_score
from conftest import needs_pages, simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "cli.md"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A calibration file, a test file and a model."""
    home = tmp_path_factory.mktemp("cli")
    for name, seed in (("val", 0), ("test", 1)):
        p, y = simulate(600, 4, seed)
        np.savez(home / f"{name}.npz", probs=p, labels=y)
    assert run(["fit", str(home / "val.npz"), "-m", "fir", "-o", str(home / "m.calibrant")]) == 0
    return home


def call(*arguments):
    return run([str(a) for a in arguments])


def test_fit_and_apply_write_what_python_would(files, capsys):
    loaded = model_file.load(files / "m.calibrant")
    assert isinstance(loaded, FlattenedIsotonic)
    new, _ = simulate(600, 4, 1)
    direct = FlattenedIsotonic().fit(*simulate(600, 4, 0)).predict_proba(new)
    np.testing.assert_array_equal(loaded.predict_proba(new), direct)
    out = files / "out.npy"
    assert call("apply", files / "m.calibrant", files / "test.npz", "-o", out, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"version": 1, "output": str(out), "rows": 600, "bad_rows": 0}
    np.testing.assert_array_equal(np.load(out), direct)


@pytest.mark.parametrize("large_bytes", [1 << 30, 0])
def test_evaluate_draws_as_many_resamples_as_asked_for(tmp_path, capsys, monkeypatch, large_bytes):
    proba, y = simulate(300, 2)
    lines = ["a,b,label", *(f"{a},{b},{'ab'[i]}" for (a, b), i in zip(proba, y, strict=True))]
    file = tmp_path / "p.csv"
    file.write_text("\n".join(lines))
    monkeypatch.setattr("calibrant._files.formats.LARGE_BYTES", large_bytes)
    assert call("evaluate", file, "--resamples", "30", "--json") == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["n_resamples"] == 30
    assert round(151 * numbers["p_value"]) == pytest.approx(151 * numbers["p_value"])
    assert numbers["shares"]["classes"] == ["a", "b"]
    assert call("evaluate", file, "--resamples", "0", "--json") == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["p_value"] is None
    assert call("evaluate", file, "--resamples", "0") == 0
    shown = capsys.readouterr().out
    assert "interval" not in shown
    assert "pos-ECE" in shown
    assert call("evaluate", file, "--resamples", "-1") == 2


def test_compare_prints_a_verdict_and_writes_a_page(files, capsys):
    page = files / "page.html"
    code = call(
        "compare", files / "val.npz", files / "test.npz", "--methods", "ts,fir", "--report", page
    )
    assert code == 0
    text = capsys.readouterr().out
    assert "over-confident by" in text
    assert "accuracy" in text  # and no heading is cut off
    assert "…" not in text
    assert "*" in text
    assert "[bold]" not in text
    assert page.resolve().as_uri() in text.replace("\n", "")
    assert "<html" in page.read_text()
    assert call("compare", files / "val.npz", files / "test.npz", "--methods", "ts", "--json") == 0
    assert [m["method"] for m in json.loads(capsys.readouterr().out)["methods"]] == [
        "uncalibrated",
        "ts",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["evaluate"], 2, "Missing"),
        (["fit", "val.npz", "-m", "nothing", "-o", "x"], 3, "'nothing'"),
        (["evaluate", "nothing.csv"], 3, "does not exist"),
        (["apply", "nothing.calibrant", "test.npz", "-o", "o.npy"], 3, "nothing.calibrant"),
        (["apply", "val.npz", "test.npz", "-o", "o.npy"], 3, "val.npz"),
        (["apply", "m.calibrant", "test.npz", "-o", "o.xyz"], 3, "'.xyz' cannot be written"),
        (["apply", "m.calibrant", "test.npz", "-o", "test.npz"], 3, "also an input"),
        (["fit", "val.npz", "-o", "no/such/place"], 3, "No such file"),
        (["inspect", "val.npz"], 3, "val.npz"),
    ],
)
def test_exit_codes_and_messages_of_one_line(files, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(files)
    for more in ([], ["--json"]):
        assert run([*arguments, *more]) == code
        shown = capsys.readouterr()
        assert re.search(re.escape(message), shown.err, re.IGNORECASE)
        assert "Traceback" not in shown.err
        assert (shown.err.count("\n") == 1) == (code != 2)  # click shows the usage
    told = json.loads(shown.out)["error"]
    assert told["exit_code"] == code
    assert code == 2 or told["message"] in shown.err
    assert not (files / "o.npy").exists()


def test_debug_shows_the_traceback(files, capsys):
    assert call("--debug", "evaluate", files / "nothing.csv") == 3
    assert "Traceback" in capsys.readouterr().err


def test_fit_says_that_it_did_not_converge(files, monkeypatch, capsys):
    def stuck(method, **parameters):
        return commands_make(method, max_rounds=1, **parameters)

    commands_make = methods.make_calibrator
    monkeypatch.setattr(methods, "make_calibrator", stuck)
    out = files / "stuck.calibrant"
    assert call("fit", files / "val.npz", "-m", "vs", "-o", out, "--json") == 0
    shown = capsys.readouterr()
    assert "warning" in shown.err
    assert json.loads(shown.out)["converged"] is False


def test_bad_rows(files, capsys):
    p, _ = simulate(50, 4)
    p[7, 2] = np.nan
    np.save(files / "bad.npy", p)
    assert call("apply", files / "m.calibrant", files / "bad.npy", "-o", files / "b.npy") == 3
    assert "bad.npy, row 7 (from 0), column 2 is nan" in capsys.readouterr().err
    assert not (files / "b.npy").exists()
    arguments = ["apply", files / "m.calibrant", files / "bad.npy", "-o", files / "b.npy"]
    assert call(*arguments, "--on-bad-row", "skip", "--json") == 0
    said = capsys.readouterr()
    assert "bad rows left out: 1;" in said.err
    assert "bad.npy, row 7 (from 0)" in said.err
    assert json.loads(said.out)["rows"] == len(np.load(files / "b.npy")) == 49


def spawn(*arguments, **options):
    command = [sys.executable, "-m", "calibrant", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize(
    ("module", "file"),
    [("click", "p.csv"), ("pyarrow", "p.csv"), ("pyarrow", "p.parquet")],
)
def test_a_module_that_is_not_installed_is_named_with_its_extra(tmp_path, module, file):
    """As after ``pip install .`` without extras."""
    (tmp_path / file).write_text("label,a,b\na,0.5,0.5\n")
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from calibrant.__main__ import main\n"
        f"sys.argv = ['calibrant', 'evaluate', '{file}']; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 3
    assert done.stderr.startswith("calibrant: ")
    assert f"needs {module}; install it with: pip install 'calibrant[cli]'" in done.stderr
    assert "or in a clone: pip install '.[cli]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_names_are_not_markup(tmp_path, capsys):
    home = tmp_path / "dir[" / "b]"
    home.mkdir(parents=True)
    p, y = simulate(300, 2)
    names = np.array(["[/x]", "[bold]y"])
    rows = "".join(f"{names[i]},{a!r},{b!r}\n" for i, (a, b) in zip(y, p.tolist(), strict=True))
    file, model = home / "v.csv", home / "m.calibrant"
    file.write_text(f"label,[/x],[bold]y\n{rows}")
    assert call("evaluate", file) == 0
    assert call("fit", file, "-m", "ts", "-o", model) == 0
    assert call("apply", model, file, "-o", home / "o.csv") == 0
    assert call("inspect", model) == 0
    assert call("evaluate", home / "none.csv") == 3
    shown = capsys.readouterr()
    for name in ("dir[/b]/v.csv", "dir[/b]/m.calibrant", "dir[/b]/o.csv", "[/x]"):
        assert name in shown.out.replace("\n", "")
    assert "dir[/b]/none.csv" in shown.err


def test_warnings_are_lines_of_the_command(files, monkeypatch, capsys):
    def describe(_):
        warnings.warn("look [/b]", errors.CalibrantWarning, stacklevel=1)
        return {}

    monkeypatch.setattr(model_file, "describe", describe)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert call("inspect", files / "m.calibrant") == 0
    assert capsys.readouterr().err == "calibrant: warning: look [/b]\n"


def test_a_closed_pipe_is_a_quiet_end(files):
    with spawn("evaluate", files / "test.npz", "--json") as process:
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 3
    assert b"Traceback" not in err


@needs_pages
@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_command_is_documented_with_an_example_that_it_shows(name):
    command = cli.commands[name]
    example = re.search(r"calibrant .+", command.help)
    assert example, f"{name} has no example"
    assert example.group().strip() in DOCS.read_text()


@needs_pages
def test_the_docs_name_every_option():
    text = DOCS.read_text()
    for name, command in cli.commands.items():
        for option in command.params:
            assert any(flag in text for flag in [*option.opts, option.name.upper()]), (name, option)


@pytest.mark.filterwarnings("always::calibrant.errors.CalibrantWarning")
@pytest.mark.parametrize("large_bytes", [1 << 30, 0])
@pytest.mark.parametrize("names", [("no", "yes"), ("0", "1")])
def test_the_positive_class_does_not_depend_on_the_order_of_columns(
    tmp_path, capsys, monkeypatch, names, large_bytes
):
    """Columns are matched by their names: the second of the sorted labels is positive."""
    monkeypatch.setattr("calibrant._files.formats.LARGE_BYTES", large_bytes)
    rng = np.random.default_rng(0)
    p = rng.beta(1, 3, size=500)
    label = np.array(names)[(rng.random(500) < p**2).astype(int)]
    frame = pd.DataFrame({f"p_{names[1]}": p, f"p_{names[0]}": 1 - p, "label": label})
    found = []
    for number, columns in enumerate((list(frame), [*frame.columns[[1, 0]], "label"])):
        frame[columns].to_csv(tmp_path / f"{number}.csv", index=False)
        words = ["evaluate", tmp_path / f"{number}.csv", "--resamples", 20]
        assert run([str(word) for word in words]) == 0
        out, err = capsys.readouterr()
        assert f"Calibration test of class {names[1]}:" in out
        name = names[1] if names[1].isdecimal() else repr(names[1])
        assert f"Class {name} is over-predicted (" in out
        assert err == ""
        found.append(out.replace(f"{number}.csv", ""))
    assert found[0] == found[1]
    for rest in ([tmp_path / "1.csv"], ["--split", "0.5"]):
        assert call("compare", tmp_path / "0.csv", *rest, "--methods", "ts") == 0
        out, err = capsys.readouterr()
        assert f"Class {names[1]} is over-predicted" in out
        assert err == ""


def test_stated_confidences_show_the_share_of_right_answers(tmp_path, capsys):
    """And not how often "confidence above one half" agrees with being right."""
    rng = np.random.default_rng(0)
    sure, right = rng.integers(20, 100, 400), rng.random(400) < 0.73
    rows = [
        {"confidence": c, "correct": y} for c, y in zip(sure.tolist(), right.tolist(), strict=True)
    ]
    file = tmp_path / "stated.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    of_half = np.mean((sure > 50) == right)
    assert abs(of_half - right.mean()) > 0.1
    assert call("evaluate", file, "--resamples", "20") == 0
    shown = capsys.readouterr().out
    assert re.search(rf"Right answers: {right.mean():.2%} ", shown)
    assert "accuracy" not in shown
    assert call("evaluate", file, "--resamples", "20", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    share = found["right_answers"]
    assert share["value"] == pytest.approx(right.mean())
    assert share["low"] < share["value"] < share["high"]
    assert "accuracy" not in found
    told = ["compare", file, "--split", "0.5", "--methods", "ts"]
    assert call(*told, "--report", tmp_path / "r.html") == 0
    shown = capsys.readouterr().out
    assert "Right answers: 7" in shown
    assert "accuracy" not in shown
    assert "<dt>accuracy</dt>" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert call(*told, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert 0.6 < found["right_answers"] < 0.85
    assert not any("accuracy" in method for method in found["methods"])


@pytest.mark.parametrize("large_bytes", [1 << 30, 0])
def test_a_reversed_rare_class_is_seen_and_named(tmp_path, capsys, monkeypatch, large_bytes):
    """With bins of equal width, nearly all rows are in the first one, and nothing is seen."""
    monkeypatch.setattr("calibrant._files.formats.LARGE_BYTES", large_bytes)
    rng = np.random.default_rng(0)
    z = rng.normal(-4.5, 1.2, 8000)
    y = (rng.random(8000) < 1 / (1 + np.exp(-z))).astype(int)
    said = 1 / (1 + np.exp(9 + z))
    file = tmp_path / "p.csv"
    pd.DataFrame({"p": said, "label": y}).to_csv(file, index=False)
    told = ["evaluate", file, "--scores", "positive", "--resamples", "20"]
    assert call(*told) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "it is not calibrated." in shown
    assert "The predictions are reversed: AUC 0." in shown
    for title in ("AUC", "predicted/observed", "slope", "intercept"):
        assert title in shown
    errors_found = []
    for strategy in ("uniform", "quantile"):
        assert call(*told, "--strategy", strategy, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["strategy"] == strategy
        assert found["binary"]["findings"] == ["reversed"]
        assert found["p_value"] < 0.03
        errors_found.append(found["positive_ece"]["value"])
    assert errors_found[0] < 0.5 * errors_found[1]
    assert call(*told, "--strategy", "mass") == 2


@pytest.mark.skipif(os.name != "posix", reason="limits of the size of files are POSIX's")
@pytest.mark.parametrize("name", ["o.npy", "o.npz", "o.csv", "o.csv.gz", "o.parquet", "o.arrow"])
def test_a_file_that_cannot_be_written_whole_is_named(files, tmp_path, capsys, name):
    """As on a full disk: the system says what, and not where."""
    import resource

    out, soft = tmp_path / name, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, soft[1]))
    try:
        code = call("apply", files / "m.calibrant", files / "test.npz", "-o", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    assert code == 3
    assert capsys.readouterr().err == f"calibrant: {out}: File too large\n"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("large_bytes", [1 << 30, 0])
def test_evaluate_ordered_classes(tmp_path, capsys, monkeypatch, large_bytes):
    monkeypatch.setattr("calibrant._files.formats.LARGE_BYTES", large_bytes)
    proba, y = simulate(300, 3)
    file = tmp_path / "p.csv"
    pd.DataFrame(proba, columns=["0", "1", "2"]).assign(label=y).to_csv(file, index=False)
    assert call("evaluate", file, "--resamples", "0", "--json", "--ordered") == 0
    found = json.loads(capsys.readouterr().out)["ranked_probability_score"]["value"]
    assert found == pytest.approx(ranked_probability_score(y, proba))
    assert call("evaluate", file, "--resamples", "0") == 0
    assert "RPS" not in capsys.readouterr().out
