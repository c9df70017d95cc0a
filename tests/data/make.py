"""Cut the small files of this directory from the collection: ``python make.py DIRECTORY``.

Rows are drawn at random; logits are kept in half precision where there are many classes. Those of
language models are lines of JSON, as logs of evaluations are.
"""

import csv
import gzip
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
CUTS = {
    "hpc_lda-crossval": ("probs", 600, np.float32),
    "cifar10_vgg16-keras": ("probs", 500, np.float32),
    "ng20_cleanlab-crossval": ("probs", 500, np.float32),
    "banking_nb": ("logits", 280, np.float16),
}


def cut(source, name):
    """Write some rows of both parts of one file."""
    kind, n_rows, dtype = CUTS[name]
    rng = np.random.default_rng(0)
    with np.load(source / f"{name}.npz") as file:
        arrays = {}
        for part in ("val", "test"):
            labels = file[f"{part}_labels"]
            rows = np.sort(rng.permutation(len(labels))[:n_rows])
            arrays[f"{part}_labels"] = labels[rows]
            arrays[f"{part}_{kind}"] = file[f"{part}_{kind}"][rows].astype(dtype)
    np.savez_compressed(HERE / f"{name}.npz", **arrays)


LOGS = {
    "mmlu_yi-34b-chat": {"val": 300, "test": 300},
    "emotion_llama-2-13b-hf": {"val": 100, "test": 400},
}


def cut_log(source, name):
    """Write some rows of both parts of a language model's options as JSON lines."""
    rng = np.random.default_rng(0)
    with np.load(source / "llm" / f"{name}.npz") as file:
        for part, n_rows in LOGS[name].items():
            labels = file[f"{part}_labels"]
            rows = np.sort(rng.permutation(len(labels))[:n_rows])
            with (HERE / "logs" / f"{name}_{part}.jsonl").open("w") as out:
                for logits, label in zip(file[f"{part}_logits"][rows], labels[rows], strict=True):
                    named = {c: round(float(z), 3) for c, z in zip("ABCDEF", logits, strict=True)}
                    out.write(json.dumps({"logits": named, "label": "ABCDEF"[label]}) + "\n")


MODELS = ("falcon-40b-instruct", "llama-2-70b-hf", "mistral-7b-v0.1", "yi-34b-chat")
STATED = ("gpt-4o", "meta-llama-3.1-8b", "mistral-small-24b")


def cut_models(source):
    """Write answers of several models to the same 300 questions, a directory for each."""
    with np.load(source / "llm" / "groups_mmlu.npz") as file:
        subjects, ids = file["val_groups"], file["val_ids"]
    rows = np.sort(np.random.default_rng(1).permutation(len(ids))[:300])
    for model in MODELS:
        with np.load(source / "llm" / f"mmlu_{model}.npz") as file:
            logits, labels = file["val_logits"][rows], file["val_labels"][rows]
        lines = []
        for z, label, row in zip(logits, labels, rows, strict=True):
            named = {c: round(float(x), 2) for c, x in zip("ABCDEF", z, strict=True)}
            record = {"id": int(ids[row]), "subject": str(subjects[row]), "logits": named}
            lines.append(json.dumps(record | {"label": "ABCDEF"[label]}) + "\n")
        home = HERE / "models" / model
        home.mkdir(parents=True, exist_ok=True)
        (home / "mmlu.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def cut_stated(source):
    """Write confidences that models stated, and whether they were right; 60 answers are checked."""
    with (HERE / "logs" / "stated.csv").open("w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["model", "subject", "stated", "fluency", "tokens", "checked", "right"])
        for model in STATED:
            rng = np.random.default_rng(0)
            (path,) = (source / "signals").glob(f"mmlupro_{model}*.npz")
            with np.load(path) as file:
                rows = rng.permutation(len(file["val_labels"]))[:300]
                subjects = file["group_names"][file["val_groups"][rows]].tolist()
                stated, right = file["val_probs"][rows, 1], file["val_labels"][rows].tolist()
                signals = file["val_features"][rows]
            for i in range(300):
                fluency, tokens = float(signals[i, 0]), float(signals[i, 2])
                beside = round(fluency, 3), "" if np.isnan(tokens) else int(tokens)
                own = model, subjects[i], round(float(stated[i]), 3)
                table.writerow([*own, *beside, right[i] if i < 60 else "", right[i]])


if __name__ == "__main__":
    for name in CUTS:
        cut(Path(sys.argv[1]), name)
    for name in LOGS:
        cut_log(Path(sys.argv[1]), name)
    cut_models(Path(sys.argv[1]))
    cut_stated(Path(sys.argv[1]))
