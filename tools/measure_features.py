"""Measure calibration with features beside the scores; prints the tables of evidence/features.md.

    OMP_NUM_THREADS=1 python tools/measure_features.py CASE DATA ...

DATA is the directory of real predictions; a case writes a line for each file to standard output,
and ``summary FILE ...`` makes tables of such lines.

``tabular``
    Fits to the validation part of each classifier, judged on its test part: NLL and Brier score
    of ``FeatureCalibrator`` and of ``AutoCalibrator`` of the scores alone; and once more with 20
    columns of pure noise as features.
``classifiers``
    ``CalibratedClassifier`` with and without ``features=True``, and scikit-learn's
    ``CalibratedClassifierCV``, around three classifiers trained on the validation part.
``signals``
    Answers of language models: a stated confidence, with further signals and the subject.
``rivals DATA [PART]``
    Classifiers of two classes of ``tabular``, or answers where DATA is that of ``signals``: also
    plain stacking (boosting, and logistic regression, on log-odds and features) and mcgrad 0.1.5
    with its defaults, if it can be imported; seconds are those of the processor, interleaved. All
    probabilities are bounded by 1e-6. ``summary_of_rivals FILE ...`` makes a table of the lines.
"""

import contextlib
import json
import logging
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from calibrant import AutoCalibrator, FeatureCalibrator
from calibrant.metrics import brier_score, negative_log_likelihood

warnings.simplefilter("ignore")


def fit_alone(train):
    """Return the calibrator of the scores alone, and the seconds of its fit."""
    started = time.perf_counter()
    alone = AutoCalibrator(classes=range(train[0].shape[1])).fit(*train)
    return alone, time.perf_counter() - started


def judge(name, kind, train, test, features, new_features, alone):
    """Print losses on the test part, as a line of JSON."""
    (scores, y), (new_scores, new_y), (alone, seconds_alone) = train, test, alone
    classes = range(scores.shape[1])
    found = {"name": name, "kind": kind, "n_rows": len(y), "n_classes": len(classes)}
    found["seconds_alone"] = seconds_alone
    started = time.perf_counter()
    fitted = FeatureCalibrator(classes=classes).fit(scores, y, features=features)
    found["seconds"] = time.perf_counter() - started
    predictions = {
        "alone": alone.predict_proba(new_scores),
        "features": fitted.predict_proba(new_scores, features=new_features),
    }
    found["share"] = fitted.share_
    for method, probabilities in predictions.items():
        found[f"nll_{method}"] = negative_log_likelihood(new_y, probabilities)
        found[f"brier_{method}"] = brier_score(new_y, probabilities)
    print(json.dumps(found), flush=True)


def probabilities(rows):
    rows = rows.astype(np.float64)
    return rows / rows.sum(axis=1, keepdims=True)


def read(path):
    """Return both parts of a file."""
    data = np.load(path)
    parts = ("val", "test")
    return [(probabilities(data[f"{p}_probs"]), data[f"{p}_labels"].astype(int)) for p in parts]


def of_signals(path):
    """Return both parts of answers with their signals, the subject as text."""
    data, parts = np.load(path, allow_pickle=False), read(path)
    columns = []
    for part in ("val", "test"):
        groups = data["group_names"][data[f"{part}_groups"]].astype(object)
        columns.append(np.column_stack([data[f"{part}_features"].astype(object), groups]))
    return parts, columns


def rivals(folder, part="0/1"):
    """Print losses and seconds of all that read features beside the scores of two classes."""
    place, n_parts = map(int, part.split("/"))
    methods = {"features": ours, "boosting": stacked_trees, "logistic": stacked_linear}
    with contextlib.suppress(ImportError):
        import mcgrad  # noqa: F401

        methods["mcgrad"] = mcgrad_of
    logging.disable(logging.CRITICAL)
    for path in sorted(Path(folder).glob("*.npz"))[place::n_parts]:
        if (path.parent / "features").exists():
            (train, test), name = read(path), f"{path.stem.rpartition('_')[0]}.npz"
            table = np.load(path.parent / "features" / name)
            columns = [table["val_features"], table["test_features"]]
        else:
            (train, test), columns = of_signals(path)
        if train[0].shape[1] > 2 or len(np.unique(train[1])) < 2:
            continue
        alone = AutoCalibrator(classes=[0, 1]).fit(*train).predict_proba(test[0])[:, 1]
        found = {"name": path.stem, "n_rows": len(train[1]), "nll_alone": loss(alone, test[1])}
        frames = [pd.DataFrame(own).infer_objects().rename(columns=str) for own in columns]
        for method, fit in methods.items():
            started = time.process_time()
            predict = fit(train, frames[0])
            found[f"seconds_{method}"] = time.process_time() - started
            found[f"nll_{method}"] = loss(predict(test[0], frames[1]), test[1])
        print(json.dumps(found), flush=True)


def loss(p, y):
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return -float(np.mean(np.log(np.where(y == 1, p, 1 - p))))


def ours(train, frame):
    fitted = FeatureCalibrator(classes=[0, 1]).fit(*train, features=frame)
    return lambda scores, new: fitted.predict_proba(scores, features=new)[:, 1]


def stacked(model, train, frame):
    """Fit a classifier to log-odds and features, with 0/1 columns for text."""
    from calibrant._gate import encode_columns, learn_columns, read_columns
    from calibrant._maps.features import learner_inputs

    known = learn_columns(read_columns(frame, len(frame)))

    def inputs(scores, own):
        columns = encode_columns(read_columns(own, len(own)), known)
        return learner_inputs(scores, "probabilities", columns)

    model.fit(inputs(train[0], frame), train[1])
    return lambda scores, new: model.predict_proba(inputs(scores, new))[:, 1]


def stacked_trees(train, frame):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return stacked(HistGradientBoostingClassifier(random_state=0), train, frame)


def stacked_linear(train, frame):
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    steps = SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=500)
    return stacked(make_pipeline(*steps), train, frame)


def mcgrad_of(train, frame):
    from mcgrad.methods import MCGrad

    numbers = [name for name in frame if frame[name].dtype.kind in "biuf"]
    names = {
        "categorical_feature_column_names": [name for name in frame if name not in numbers],
        "numerical_feature_column_names": numbers,
    }
    model, (scores, y) = MCGrad(), train
    model.fit(frame.assign(score=scores[:, 1], label=y), "score", "label", **names)
    return lambda new_scores, new: model.predict(
        new.assign(score=new_scores[:, 1]), "score", **names
    )


def summary_of_rivals(*paths):
    rows = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    print("| method | files | NLL | worst | better than it | its seconds, times ours |")
    for method in ("alone", "boosting", "logistic", "mcgrad"):
        some = [row for row in rows if f"nll_{method}" in row]
        if not some:
            continue
        nll, own = (np.array([row[f"nll_{m}"] for row in some]) for m in (method, "features"))
        alone = np.array([row["nll_alone"] for row in some])
        times = [row.get(f"seconds_{method}", np.nan) / row["seconds_features"] for row in some]
        print(
            f"| {method} | {len(some)} | {np.exp(np.mean(np.log(nll / alone))):.3f} | "
            f"{np.max(nll / alone):.2f} | {np.sum(own < nll)} | {np.median(times):.2f} "
            f"({np.min(times):.2f} to {np.max(times):.2f}) |"
        )
    own = np.array([row["nll_features"] / row["nll_alone"] for row in rows])
    print(f"| features | {len(rows)} | {np.exp(np.mean(np.log(own))):.3f} | {own.max():.2f} | | |")


def tabular(folder, part="0/1"):
    place, n_parts = map(int, part.split("/"))
    for path in sorted(Path(folder).glob("*.npz"))[place::n_parts]:
        train, test = read(path)
        table = np.load(path.parent / "features" / f"{path.stem.rpartition('_')[0]}.npz")
        features = table["val_features"], table["test_features"]
        alone = fit_alone(train)
        judge(path.stem, "features", train, test, *features, alone)
        rng = np.random.default_rng(len(path.stem))
        noise = [rng.normal(size=(len(y), 20)) for _, y in (train, test)]
        judge(path.stem, "noise", train, test, *noise, alone)


def signals(folder):
    for path in sorted(Path(folder).glob("*.npz")):
        (train, test), columns = of_signals(path)
        judge(path.stem, "signals", train, test, *columns, fit_alone(train))


def classifiers(folder, n_sets=20):
    """Train on the validation part, whose features are there, and judge on the test part."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from calibrant import CalibratedClassifier

    estimators = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "forest": RandomForestClassifier(100, random_state=0),
        "bayes": GaussianNB(),
    }
    n_done = 0
    for path in sorted((Path(folder) / "features").glob("*.npz")):
        table, (train, test) = np.load(path), read(next(Path(folder).glob(f"{path.stem}_rf.npz")))
        counts = np.bincount(train[1])
        if len(train[1]) < 300 or counts[counts > 0].min() < 5 or (counts == 0).any():
            continue
        for name, estimator in estimators.items():
            models = {
                "features": CalibratedClassifier(estimator, features=True),
                "scores": CalibratedClassifier(estimator),
            }
            for method in ("sigmoid", "isotonic", "temperature"):
                models[method] = CalibratedClassifierCV(estimator, method=method)
            found = {"name": path.stem, "kind": name, "n_rows": len(train[1])}
            for method, model in models.items():
                started = time.perf_counter()
                model.fit(table["val_features"], train[1])
                found[f"seconds_{method}"] = time.perf_counter() - started
                p = np.maximum(model.predict_proba(table["test_features"]), 1e-6)
                found[method] = negative_log_likelihood(test[1], p / p.sum(axis=1, keepdims=True))
            print(json.dumps(found), flush=True)
        n_done += 1
        if n_done == int(n_sets):
            return


def summary(*paths):
    rows = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    sizes = {"all": (0, 1 << 60), "< 300 rows": (0, 300), "300 to 800": (300, 800)}
    sizes |= {">= 800": (800, 1 << 60)}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        print(f"| {kind} | files | NLL | worst | better | Brier | share | seconds | alone |")
        for size, (low, high) in sizes.items():
            some = [row for row in own if low <= row["n_rows"] < high]
            if not some:
                continue
            nll = np.array([row["nll_features"] / row["nll_alone"] for row in some])
            brier = np.array([row["brier_features"] / row["brier_alone"] for row in some])
            seconds = [
                np.median([row[key] for row in some]) for key in ("seconds", "seconds_alone")
            ]
            print(
                f"| {size} | {len(some)} | {np.exp(np.log(nll).mean()):.4f} | {nll.max():.4f} | "
                f"{np.mean(nll < 1):.0%} | {np.exp(np.log(brier).mean()):.4f} | "
                f"{np.mean([row['share'] for row in some]):.2f} | {seconds[0]:.2f} | "
                f"{seconds[1]:.2f} |"
            )
        worst = sorted(own, key=lambda row: -row["nll_features"] / row["nll_alone"])[:6]
        print("worst:", *(f"{r['name']} {r['nll_features'] / r['nll_alone']:.3f}" for r in worst))
        for name in sorted({row["name"].rpartition("_")[2] for row in own}):
            some = [r["nll_features"] / r["nll_alone"] for r in own if r["name"].endswith(name)]
            if len(some) > 1:
                print(f"  {name}: {np.exp(np.mean(np.log(some))):.4f}", end="")
        print()


if __name__ == "__main__":
    CASES = {"tabular": tabular, "signals": signals, "classifiers": classifiers}
    CASES |= {"summary": summary, "rivals": rivals, "summary_of_rivals": summary_of_rivals}
    CASES[sys.argv[1]](*sys.argv[2:])
