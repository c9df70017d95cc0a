"""Train the classical text classifiers of the paper on a corpus and write their predictions.

``python paper/text_models.py CORPUS OUT [MODEL ...]``
"""

from __future__ import annotations

import gzip
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._files.source import decoding
from calibrant._gate import check_option
from calibrant.errors import PredictionFileError
from prediction_files import split_rows, write_predictions

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

ALPHAS = (0.01, 0.05, 0.1, 1.0, 10.0)
SVM_C = (0.1, 1, 3, 10, 100)
"""Of naive Bayes and of the support vector machine: the grids of the paper."""

LOGISTIC_C = (1, 10, 100)
LEARNING_RATES = (1e-3, 5e-3)
MOST_PRODUCTS = 16_000
"""Documents whose products are computed at once: two gigabytes."""

N_FOLDS = 5
HELD_OUT = 0.1
N_COMPONENTS = 300
HIDDEN = 256
EPOCHS = 15
PARTS = ("train", "val", "test")
MODELS = ("nb", "svm-linear", "logreg", "mlp")


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Texts and labels by part, "train", "test" and perhaps "val"; labels number the classes."""

    name: str
    texts: dict[str, list[str]]
    labels: dict[str, NDArray[np.int64]]
    classes: NDArray[np.str_]


def read_corpus(path: str | os.PathLike[str]) -> Corpus:
    """Read ``corpus_<name>.tsv.gz``, compressed or not: lines "part, label, text" with tabs."""
    path = Path(path)
    texts: dict[str, list[str]] = {part: [] for part in PARTS}
    names: dict[str, list[str]] = {part: [] for part in PARTS}
    for number, line in enumerate(_lines(path), start=1):
        part, _, rest = line.partition("\t")
        label, separator, text = rest.partition("\t")
        if part not in PARTS or not separator:
            raise PredictionFileError(
                f"{path}, line {number} is not train, val or test, a label and a text, with tabs"
            )
        texts[part].append(text)
        names[part].append(label)
    for part in ("train", "test"):
        if not texts[part]:
            raise PredictionFileError(f"{path} has no {part} part")
    classes = np.unique(names["train"])
    for part in ("val", "test"):
        unknown = sorted({*names[part]}.difference(classes.tolist()))
        if unknown:
            raise PredictionFileError(
                f"{path}: the class {unknown[0]!r} of the {part} part is not in the train part"
            )
    found = [part for part in PARTS if texts[part]]
    return Corpus(
        path.name.removeprefix("corpus_").partition(".")[0],
        {part: texts[part] for part in found},
        {part: np.searchsorted(classes, names[part]).astype(np.int64) for part in found},
        classes,
    )


def _lines(path: Path) -> list[str]:
    with decoding(path):
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return data.decode("utf-8").removesuffix("\n").split("\n")


def train_text_models(
    corpus: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    models: Sequence[str] | None = None,
    *,
    seed: int = 0,
) -> list[Path]:
    """Train text classifiers and write their prediction files.

    Parameters
    ----------
    corpus : path-like
        ``corpus_<dataset>.tsv.gz``, with lines "part, label, text"; a part is train, val or test.
        Without a val part the test part is split 25 / 75.
    directory : path-like
        Gets ``<dataset>_<model>.npz``; made if it is not there.
    models : sequence of str, optional
        All of ``MODELS`` by default: "nb" (multinomial naive Bayes), "svm-linear",
        "logreg", "mlp".
    seed : int, default=0
        Of the split, of cross-validation and of the models.

    Returns
    -------
    paths : list of Path

    Notes
    -----
    "nb" uses word counts, the others TF-IDF. The hyper-parameters of "nb" and "svm-linear" are
    chosen by 5-fold cross-validation from the grids of the paper, those of "logreg" and "mlp" on
    a tenth of the train part; then the model is trained on the whole of it. The test part is used
    for nothing but predictions.

    Examples
    --------
    >>> from text_models import train_text_models
    >>> train_text_models("corpus_r52.tsv.gz", "predictions", ["nb"])  # doctest: +SKIP
    [PosixPath('predictions/r52_nb.npz')]
    """
    wanted = list(MODELS) if models is None else list(models)
    for model in wanted:
        check_option("model", model, MODELS)
    data = read_corpus(corpus)
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    paths = []
    for model in wanted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rare classes, few epochs
            fitted = train(model, data.texts["train"], data.labels["train"], seed)
        path = home / f"{data.name}_{model}.npz"
        paths.append(_predict(fitted, data, path, seed, with_logits=model == "nb"))
    return paths


def _predict(fitted: Any, data: Corpus, path: Path, seed: int, *, with_logits: bool) -> Path:
    """Write what a pipeline says of the test part, and of the val part or a quarter of it."""
    arrays: dict[str, Any] = {}
    for part in [part for part in ("val", "test") if part in data.texts]:
        arrays[f"{part}_labels"] = data.classes[data.labels[part]]
        arrays[f"{part}_probs"] = fitted.predict_proba(data.texts[part]).astype(np.float32)
        if with_logits:  # finite where probabilities underflow
            logits = fitted.predict_log_proba(data.texts[part])
            arrays[f"{part}_logits"] = logits.astype(np.float32)
    if "val" not in data.texts:
        val, test = split_rows(len(data.texts["test"]), seed)
        whole = {name.removeprefix("test_"): array for name, array in arrays.items()}
        arrays = {f"val_{name}": array[val] for name, array in whole.items()}
        arrays |= {f"test_{name}": array[test] for name, array in whole.items()}
    return write_predictions(path, **arrays, classes=data.classes)


def train(model: str, texts: list[str], labels: NDArray[np.int64], seed: int) -> Any:
    """Return the pipeline of a model, trained with the parameters that are the most accurate."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    words = CountVectorizer() if model == "nb" else TfidfVectorizer(sublinear_tf=True)
    rows = words.fit_transform(texts)
    n_folds = max(2, min(N_FOLDS, int(np.bincount(labels).max())))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    tenth = ShuffleSplit(1, test_size=HELD_OUT, random_state=seed)
    search = partial(GridSearchCV, scoring="accuracy", error_score="raise")
    if model == "nb":
        found = search(MultinomialNB(), {"alpha": ALPHAS}, cv=folds)
    elif model == "logreg":
        found = search(LogisticRegression(max_iter=1000), {"C": LOGISTIC_C}, cv=tenth)
    elif model == "mlp":  # on the leading components
        reduce = TruncatedSVD(min(N_COMPONENTS, rows.shape[1], len(texts)), random_state=seed)
        words, rows = make_pipeline(words, reduce), reduce.fit_transform(rows)
        network = MLPClassifier((HIDDEN,), max_iter=EPOCHS, random_state=seed)
        found = search(network, {"learning_rate_init": LEARNING_RATES}, cv=tenth)
    else:
        kernel = "linear"
        if len(texts) <= MOST_PRODUCTS:  # many times faster than products of sparse rows on demand
            kernel, rows = "precomputed", (rows @ rows.T).toarray()
        found = search(SVC(kernel=kernel), {"C": SVM_C}, cv=folds, refit=False).fit(rows, labels)
        machine = SVC(kernel="linear", C=found.best_params_["C"], cache_size=1000)
        if "probability" in machine.get_params():
            machine.set_params(probability=True, random_state=seed)  # as the paper has it
        else:  # scikit-learn 1.11
            machine = CalibratedClassifierCV(machine, ensemble=False)
        return make_pipeline(words, machine).fit(texts, labels)
    return make_pipeline(words, found.fit(rows, labels).best_estimator_)


def main() -> None:
    """Train what the command line names."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for path in train_text_models(sys.argv[1], sys.argv[2], sys.argv[3:] or None):
        print(path)


if __name__ == "__main__":
    main()
