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

from calibrant import AutoCalibrator, FlattenedIsotonic, TemperatureScaling, errors, model_file
from calibrant._calibrators import methods
from calibrant._cli.main import cli
from calibrant._cli.reading import outline
from calibrant.metrics import ranked_probability_score
from conftest import needs_pages, simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "cli.md"


@pytest.fixture(scope="module")
def files(tmp_path_factory, quiet):
    """A calibration file, a test file and a model."""
    home = tmp_path_factory.mktemp("cli")
    for name, seed in (("val", 0), ("test", 1)):
        p, y = simulate(600, 4, seed)
        np.savez(home / f"{name}.npz", probs=p, labels=y)
    quiet("fit", home / "val.npz", "-m", "fir", "-o", home / "m.calibrant")
    return home


@pytest.fixture(params=[1 << 30, 0], ids=["whole", "chunks"])
def sizes(request, monkeypatch):
    """Files are read whole, or in chunks."""
    monkeypatch.setattr("calibrant._files.formats.LARGE_BYTES", request.param)


def test_fit_and_apply_write_what_python_would(files, call):
    loaded = model_file.load(files / "m.calibrant")
    assert isinstance(loaded, FlattenedIsotonic)
    new, _ = simulate(600, 4, 1)
    direct = FlattenedIsotonic().fit(*simulate(600, 4, 0)).predict_proba(new)
    np.testing.assert_array_equal(loaded.predict_proba(new), direct)
    out = files / "out.npy"
    found = call("apply", files / "m.calibrant", files / "test.npz", "-o", out, "--json").json
    assert found == {"version": 1, "output": str(out), "rows": 600, "bad_rows": 0}
    np.testing.assert_array_equal(np.load(out), direct)


@pytest.mark.usefixtures("sizes")
def test_evaluate_draws_as_many_resamples_as_asked_for(tmp_path, call):
    proba, y = simulate(300, 2)
    file = tmp_path / "p.csv"
    frame = pd.DataFrame(proba, columns=["a", "b"]).assign(label=np.array(["a", "b"])[y])
    frame.to_csv(file, index=False)
    numbers = call("evaluate", file, "--resamples", "30", "--json").json
    assert numbers["n_resamples"] == 30
    assert round(151 * numbers["p_value"]) == pytest.approx(151 * numbers["p_value"])
    assert numbers["shares"]["classes"] == ["a", "b"]
    found = call("evaluate", file, "--resamples", "0", "--json", "--ordered").json
    score = found["ranked_probability_score"]["value"]
    assert score == pytest.approx(ranked_probability_score(y, proba))
    assert found["p_value"] is None
    shown = call("evaluate", file, "--resamples", "0").out
    assert "interval" not in shown
    assert "RPS" not in shown
    assert "pos-ECE" in shown


def test_compare_prints_a_verdict_and_writes_a_page(files, call):
    page, words = files / "page.html", ["compare", files / "val.npz", files / "test.npz"]
    text = call(*words, "--methods", "ts,fir", "--report", page).out
    assert "over-confident by" in text
    lines = [line for line in text.splitlines() if not line.startswith("Report:")]
    assert [line for line in lines if len(line) > 80] == []
    assert "[bold]" not in text
    assert page.resolve().as_uri() in text
    assert "<html" in page.read_text()
    found = call(*words, "--methods", "ts", "--json").json
    assert [method["method"] for method in found["methods"]] == ["uncalibrated", "ts"]


def test_skipped_rows_warnings_and_tracebacks_are_lines_of_the_command(files, monkeypatch, call):
    p, _ = simulate(50, 4)
    p[7, 2] = np.nan
    np.save(files / "bad.npy", p)
    words = ["apply", files / "m.calibrant", files / "bad.npy", "-o", files / "b.npy"]
    said = call(*words, "--on-bad-row", "skip", "--json")
    assert re.search(r"bad rows left out: 1; .*bad\.npy, row 7 \(from 0\)", said.err)
    assert said.json["rows"] == len(np.load(files / "b.npy")) == 49

    def describe(_):
        warnings.warn("look [/b]", errors.CalibrantWarning, stacklevel=1)
        return {}

    monkeypatch.setattr(model_file, "describe", describe)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        told = call("inspect", files / "m.calibrant").err
    assert told == "calibrant: warning: look [/b]\n"
    assert "Traceback" in call("--debug", "evaluate", files / "nothing.csv", code=3).err


def test_fit_says_that_it_did_not_converge(files, monkeypatch, call):
    def stuck(method, **parameters):
        return commands_make(method, max_rounds=1, **parameters)

    commands_make = methods.make_calibrator
    monkeypatch.setattr(methods, "make_calibrator", stuck)
    shown = call("fit", files / "val.npz", "-m", "vs", "-o", files / "stuck", "--json")
    assert "warning" in shown.err
    assert shown.json["converged"] is False


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
@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("names", [("no", "yes"), ("0", "1")])
def test_the_positive_class_does_not_depend_on_the_order_of_columns(tmp_path, call, names):
    """Columns are matched by their names: the second of the sorted labels is positive."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 3, size=500)
    label = np.array(names)[(rng.random(500) < p**2).astype(int)]
    frame = pd.DataFrame({f"p_{names[1]}": p, f"p_{names[0]}": 1 - p, "label": label})
    found = []
    for number, columns in enumerate((list(frame), [*frame.columns[[1, 0]], "label"])):
        frame[columns].to_csv(tmp_path / f"{number}.csv", index=False)
        told = call("evaluate", tmp_path / f"{number}.csv", "--resamples", 20)
        assert f"Calibration test of class {names[1]}:" in told.out
        name = names[1] if names[1].isdecimal() else repr(names[1])
        assert f"Class {name} is over-predicted (" in told.out
        assert told.err == ""
        found.append(told.out.replace(f"{number}.csv", ""))
    assert found[0] == found[1]
    for rest in ([tmp_path / "1.csv"], ["--split", "0.5"]):
        told = call("compare", tmp_path / "0.csv", *rest, "--methods", "ts")
        assert f"Class {names[1]} is over-predicted" in told.out
        assert told.err == ""


def test_stated_confidences_show_the_share_of_right_answers(tmp_path, call):
    """And not how often "confidence above one half" agrees with being right."""
    rng = np.random.default_rng(0)
    sure, right = rng.integers(20, 100, 400), rng.random(400) < 0.73
    pairs = zip(sure.tolist(), right.tolist(), strict=True)
    file = tmp_path / "stated.jsonl"
    file.write_text("".join(json.dumps({"confidence": c, "correct": y}) + "\n" for c, y in pairs))
    assert abs(np.mean((sure > 50) == right) - right.mean()) > 0.1
    shown = call("evaluate", file, "--resamples", "20").out
    assert f"Right answers: {right.mean():.2%} " in shown
    assert "accuracy" not in shown
    words = ["compare", file, "--split", "0.5", "--methods", "ts"]
    shown = call(*words, "--report", tmp_path / "r.html").out
    assert "Right answers: 7" in shown
    assert "accuracy" not in shown
    assert "<dt>accuracy</dt>" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    found = call(*words, "--json").json
    assert 0.6 < found["right_answers"] < 0.85
    assert not any("accuracy" in method for method in found["methods"])


@pytest.mark.usefixtures("sizes")
def test_a_reversed_rare_class_is_seen_and_named(tmp_path, call):
    """With bins of equal width, nearly all rows are in the first one, and nothing is seen."""
    rng = np.random.default_rng(0)
    z = rng.normal(-4.5, 1.2, 8000)
    y = (rng.random(8000) < 1 / (1 + np.exp(-z))).astype(int)
    file = tmp_path / "p.csv"
    pd.DataFrame({"p": 1 / (1 + np.exp(9 + z)), "label": y}).to_csv(file, index=False)
    words = ["evaluate", file, "--scores", "positive", "--resamples", "20"]
    shown = " ".join(call(*words).out.split())
    for text in ("it is not calibrated.", "The predictions are reversed: AUC 0.", "slope"):
        assert text in shown
    wide, even = (call(*words, "--strategy", own, "--json").json for own in ("uniform", "quantile"))
    assert (wide["strategy"], even["strategy"]) == ("uniform", "quantile")
    assert wide["binary"]["findings"] == even["binary"]["findings"] == ["reversed"]
    assert wide["positive_ece"]["value"] < 0.5 * even["positive_ece"]["value"]


@pytest.mark.skipif(os.name != "posix", reason="limits of the size of files are POSIX's")
@pytest.mark.parametrize("name", ["o.npy", "o.npz", "o.csv", "o.csv.gz", "o.parquet", "o.arrow"])
def test_a_file_that_cannot_be_written_whole_is_named(files, tmp_path, call, name):
    """As on a full disk: the system says what, and not where."""
    import resource

    out, soft = tmp_path / name, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, soft[1]))
    try:
        told = call("apply", files / "m.calibrant", files / "test.npz", "-o", out, code=3).err
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    assert told == f"calibrant: {out}: File too large\n"
    assert not [*tmp_path.iterdir()]


def documented(command):
    """Fields that the page names for a command."""
    head = "| command | fields |"
    table = DOCS.read_text().split(head)[1].split("\n\n")[0]  # an empty line ends it
    line = next(li for li in table.splitlines() if li.startswith(f"| `{command}` |"))
    return set(re.findall(r"`(\w+)`", line.split("|")[2]))


@needs_pages
def test_every_command_prints_what_the_page_says(files, tmp_path, call):
    model, val = tmp_path / "m.calibrant", files / "val.npz"
    for words in (
        ("fit", val, "-m", "vs", "-o", model),
        ("evaluate", val),
        ("apply", model, val, "-o", tmp_path / "out.csv"),
        ("compare", val, "--split", "0.5", "--methods", "ts"),
        ("inspect", model),
        ("monitor", model, val, "--state", tmp_path / "state.json"),
    ):
        found = call(*words, "--json")
        assert "NaN" not in found.out
        found = found.json
        assert found["version"] == 1
        assert documented(words[0]) == found.keys() - {"version"}, words[0]
    assert documented("export")
    assert documented("study")


def test_facts_stand_in_short_lines_and_parts_are_indented(tmp_path):
    model_file.save(AutoCalibrator(cv=2).fit(*simulate(600, 4)), tmp_path / "m")
    found = model_file.describe(tmp_path / "m")
    lines = outline(found)
    assert lines[0] == "method: auto"
    assert lines[-1] == f"sha256: {found['sha256']}"
    assert max(map(len, lines)) <= 130
    assert not any(sign in "\n".join(lines) for sign in ("{", "None", "nan"))
    heads = [place for place, line in enumerate(lines) if line.startswith("parts ")]
    assert [lines[place + 1] for place in heads] == [
        f"  role: {part['role']}" for part in found["parts"]
    ]


def test_many_classes_are_cut_and_names_cannot_leave_their_line(tmp_path):
    names = np.array([f"class\n\x1b[2J {i:03d}" for i in range(30)])
    scores, y = simulate(600, 30)
    model_file.save(TemperatureScaling(classes=names).fit(scores, names[y]), tmp_path / "m")
    lines = outline(model_file.describe(tmp_path / "m"))
    assert not any("\x1b" in line or "\n" in line for line in lines)
    assert any(line.startswith("classes: ") and line.endswith(", ...]") for line in lines)
    assert "n_classes: 30" in lines
