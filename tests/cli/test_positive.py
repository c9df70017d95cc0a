"""The positive one of two classes, by the command: of a single column, and of two."""

import numpy as np
import pandas as pd
import pytest

from calibrant import TemperatureScaling, model_file

COSTS = ",good,bad\ngood,0,1\nbad,5,0\n"


@pytest.fixture(scope="module")
def risks(tmp_path_factory):
    """Return a directory with tables of the same rows, and their frame."""
    rng = np.random.default_rng(3)
    z = rng.normal(-0.5, 2.0, 800)
    label = np.where(rng.random(800) < 1 / (1 + np.exp(-z / 2)), "bad", "good")
    p = 1 / (1 + np.exp(-z))
    frame = pd.DataFrame({"bad": p, "good": 1 - p, "label": label})
    home = tmp_path_factory.mktemp("risks")
    frame.to_csv(home / "two.csv", index=False)
    frame[["bad", "good"]].to_csv(home / "serve.csv", index=False)
    frame[["bad", "label"]].set_axis(["risk", "label"], axis=1).to_csv(
        home / "one.csv", index=False
    )
    frame[["bad"]].set_axis(["risk"], axis=1).to_csv(home / "one_serve.csv", index=False)
    frame[["good"]].to_csv(home / "other.csv", index=False)
    np.save(home / "one.npy", p)
    (home / "costs.csv").write_text(COSTS)
    (home / "costs.json").write_text('{"false_positive": 1, "false_negative": 5}')
    (home / "days").mkdir()
    frame[:400].to_csv(home / "days" / "1.csv", index=False)
    frame[400:].to_csv(home / "days" / "2.csv", index=False)
    return home, frame


@pytest.fixture(scope="module")
def one(risks, tmp_path_factory, quiet):
    """Return a model of one column."""
    model, (home, _) = tmp_path_factory.mktemp("model") / "one.calibrant", risks
    words = ["fit", home / "one.csv", "--columns", "risk", "--positive", "bad", "-m", "ts", "-o"]
    quiet(*words, model)
    return model


@pytest.mark.parametrize("costs", ["costs.csv", "costs.json"])
@pytest.mark.parametrize("served", ["one_serve.csv", "one.csv", "one.npy"])
def test_decisions_by_one_column(risks, one, call, tmp_path, served, costs):
    (home, frame), out = risks, tmp_path / "out.csv"
    words = ["decide", one, home / served, "--costs", home / costs, "-o", out]
    found = call(*words, "--json").json
    fit = TemperatureScaling().fit(frame[["bad", "good"]], frame["label"])
    p = fit.predict_proba(frame[["bad", "good"]])[:, 0]
    assert found["expected_cost"] == pytest.approx(np.minimum(1 - p, 5 * p).mean())
    chosen = np.where(5 * p > 1 - p, "bad", "good")
    assert pd.read_csv(out)["decision"].tolist() == chosen.tolist()


def test_one_column_is_monitored(risks, one, call, tmp_path):
    home, _ = risks
    found = [
        call("monitor", model, home / file, "--state", tmp_path / file, "--json").json
        for model, file in [(one, "one.csv"), (two_model(home, call, tmp_path), "two.csv")]
    ]
    assert found[0]["n_rows"] == 800
    for name in ("accuracy", "confidence", "gap"):  # rows count in the order of their last bits
        assert found[0][name]["value"] == pytest.approx(found[1][name]["value"], abs=1e-12)


def two_model(home, call, path, *more, file="two.csv"):
    """Fit to two columns."""
    model = path / "two.calibrant"
    call("fit", home / file, "-m", "ts", "-o", model, *more)
    return model


@pytest.mark.filterwarnings("ignore::calibrant.errors.ColumnOrderWarning")
@pytest.mark.parametrize("file", ["two.csv", "days"])
def test_fit_puts_the_positive_class_of_two_columns_last(risks, call, tmp_path, file):
    home, frame = risks
    model = two_model(home, call, tmp_path, "--positive", "bad", file=file)
    loaded = model_file.load(model)
    assert loaded.classes_.tolist() == ["good", "bad"]
    plain = model_file.load(two_model(home, call, tmp_path, file=file))
    wanted = plain.predict_proba(frame[["bad", "good"]])
    found = loaded.predict_proba(frame[["good", "bad"]])
    np.testing.assert_allclose(found[:, ::-1], wanted, rtol=1e-9)
    model_file.save(loaded, model)
    out = tmp_path / "out.csv"
    call("apply", model, home / "serve.csv", "-o", out)
    np.testing.assert_allclose(pd.read_csv(out)[["bad", "good"]], wanted, rtol=1e-9)


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_fit_does_not_turn_columns_that_have_no_names(risks, call, tmp_path, suffix):
    _, frame = risks
    path, y = tmp_path / f"val{suffix}", (frame["label"] == "good").astype(int)
    if suffix == ".npz":
        np.savez(path, probs=np.ascontiguousarray(frame[["bad", "good"]]), labels=y)
    else:
        frame.set_axis(["first", "second", "label"], axis=1).assign(label=y).to_csv(
            path, index=False
        )
    words = ["fit", path, "-m", "ts", "-o", tmp_path / "m.calibrant", "--positive"]
    assert "only where columns are named after" in call(*words, "0", code=3).err
    call(*words, "1")
    assert model_file.load(tmp_path / "m.calibrant").classes_.tolist() == [0, 1]
