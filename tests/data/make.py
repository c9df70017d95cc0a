"""Cut the small files of this directory from the collection: ``python make.py DIRECTORY``.

Rows are drawn at random; logits are kept in half precision where there are many classes. Those of
language models are lines of JSON, as logs of evaluations are.
"""

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


if __name__ == "__main__":
    for name in CUTS:
        cut(Path(sys.argv[1]), name)
    for name in LOGS:
        cut_log(Path(sys.argv[1]), name)
