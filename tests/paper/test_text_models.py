"""Text models: a corpus in, prediction files out."""

import gzip

import numpy as np
import pytest

import text_models
from calibrant.errors import ParameterError, PredictionFileError
from conftest import DATA, needs_collection
from prediction_files import split_rows
from text_models import MODELS, read_corpus, train_text_models

WORDS = {
    "fruit": ["apple", "pear", "plum", "cherry", "grape", "lemon"],
    "beast": ["horse", "cow", "sheep", "goat", "pig", "donkey"],
    "metal": ["iron", "copper", "zinc", "tin", "lead", "silver"],
}


def lines(parts, seed=0):
    """Documents of three subjects with a few words of the others."""
    rng = np.random.default_rng(seed)
    everything = [word for words in WORDS.values() for word in words]
    found = []
    for part, size in parts.items():
        for i in range(size):
            label = list(WORDS)[i % 3]
            words = [*rng.choice(WORDS[label], 4), *rng.choice(everything, 3)]
            found.append(f"{part}\t{label}\t{' '.join(words)}")
    return found


def write(path, found):
    """A corpus, compressed or not, as its name tells."""
    content = ("\n".join(found) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture
def corpus(tmp_path):
    return write(tmp_path / "corpus_toy.tsv.gz", lines({"train": 120, "test": 40}))


def load(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def test_corpus_is_read_by_part_compressed_or_not(corpus, tmp_path):
    found = read_corpus(corpus)
    assert found.name == "toy"
    assert found.classes.tolist() == ["beast", "fruit", "metal"]
    assert {part: len(texts) for part, texts in found.texts.items()} == {"train": 120, "test": 40}
    assert found.classes[found.labels["test"][:3]].tolist() == ["fruit", "beast", "metal"]
    plain = write(tmp_path / "corpus_toy.tsv", lines({"train": 120, "test": 40}))
    assert read_corpus(plain).texts == found.texts


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (["train\ta\tx", "test a x"], "line 2"),
        (["train\ta\tx", "other\ta\tx"], "line 2"),
        (["train\ta"], "line 1"),
        (["train\ta\tx"], "no test part"),
        (["test\ta\tx"], "no train part"),
        (["train\ta\tx", "test\tb\tx"], "class 'b'"),
    ],
)
def test_other_lines_are_errors(tmp_path, found, message):
    with pytest.raises(PredictionFileError, match=message):
        read_corpus(write(tmp_path / "corpus_a.tsv.gz", found))


@pytest.mark.parametrize("model", MODELS)
def test_every_model_learns_and_predicts_distributions(corpus, tmp_path, model):
    (path,) = train_text_models(corpus, tmp_path / "out", [model], seed=3)
    assert path == tmp_path / "out" / f"toy_{model}.npz"
    arrays, read = load(path), read_corpus(corpus)
    labels = read.classes[read.labels["test"]]
    for part, own in zip(("val", "test"), split_rows(40, 3), strict=True):
        assert arrays[f"{part}_probs"].shape == (len(own), 3)
        assert arrays[f"{part}_probs"].dtype == np.float32
        np.testing.assert_array_equal(arrays[f"{part}_labels"], labels[own])
    np.testing.assert_allclose(arrays["test_probs"].sum(axis=1), 1, atol=1e-6)
    right = arrays["classes"][arrays["test_probs"].argmax(axis=1)] == arrays["test_labels"]
    assert right.mean() > 0.8


def test_a_val_part_is_used_as_it_is_and_naive_bayes_has_logits(tmp_path):
    corpus = write(tmp_path / "corpus_v.tsv.gz", lines({"train": 60, "val": 9, "test": 12}))
    (path,) = train_text_models(corpus, tmp_path, ["nb"])
    arrays, read = load(path), read_corpus(corpus)
    for part in ("val", "test"):
        np.testing.assert_array_equal(arrays[f"{part}_labels"], read.classes[read.labels[part]])
        logits = arrays[f"{part}_logits"]
        np.testing.assert_allclose(np.exp(logits), arrays[f"{part}_probs"], atol=1e-6)


def test_parameters_are_chosen_by_accuracy_on_the_train_part(monkeypatch):
    """With enough smoothing naive Bayes predicts the most frequent class."""
    monkeypatch.setattr(text_models, "ALPHAS", (1e9, 0.1))
    parts = {"train": 90}
    found = [line.split("\t") for line in lines(parts)] + [["train", "fruit", "apple"]] * 30
    labels = np.array([list(WORDS).index(label) for _, label, _ in found])
    fitted = text_models.train("nb", [text for *_, text in found], labels, 0)
    assert fitted[-1].alpha == 0.1


def test_products_at_once_do_not_change_the_support_vector_machine(corpus, tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="'bert'"):
        train_text_models(corpus, tmp_path / "a", ["svm-linear", "bert"])
    assert not (tmp_path / "a").exists()
    (at_once,) = train_text_models(corpus, tmp_path / "a", ["svm-linear"])
    monkeypatch.setattr(text_models, "MOST_PRODUCTS", 10)
    (on_demand,) = train_text_models(corpus, tmp_path / "b", ["svm-linear"])
    assert at_once.read_bytes() == on_demand.read_bytes()


def test_classes_with_one_document_are_trained_as_well(tmp_path):
    found = [*lines({"train": 60, "test": 12}), "train\trare\tunicorn", "test\trare\tunicorn"]
    for path in train_text_models(write(tmp_path / "corpus_r.tsv", found), tmp_path, ["nb"]):
        assert load(path)["val_probs"].shape[1] == 4


@pytest.mark.parametrize("name", ["r52", "ohsumed", "banking"])
@needs_collection
def test_split_is_that_of_the_published_files(name):
    labels = read_corpus(DATA / f"corpus_{name}.tsv.gz").labels["test"]
    val, test = split_rows(len(labels))
    published = load(DATA / f"{name}_logreg.npz")
    np.testing.assert_array_equal(labels[val], published["val_labels"])
    np.testing.assert_array_equal(labels[test], published["test_labels"])


@pytest.mark.slow
@needs_collection
def test_naive_bayes_on_a_real_corpus_is_as_good_as_the_published_one(tmp_path):
    (path,) = train_text_models(DATA / "corpus_r52.tsv.gz", tmp_path, ["nb"])
    ours, published = load(path), load(DATA / "r52_nb.npz")
    for part in ("val", "test"):
        ours[f"{part}_labels"] = np.searchsorted(ours["classes"], ours[f"{part}_labels"])
        np.testing.assert_array_equal(ours[f"{part}_labels"], published[f"{part}_labels"])
    accuracy = [(a["test_probs"].argmax(1) == a["test_labels"]).mean() for a in (ours, published)]
    assert accuracy[0] > accuracy[1] - 0.01
