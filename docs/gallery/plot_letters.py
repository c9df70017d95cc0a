"""
A language model's letters
==========================

Asked a question with four options, a language model gives each letter a logit. Here are those of
Yi-34B-chat for 600 questions of MMLU: half of them to calibrate with, half to judge. The files are
in ``tests/data/logs`` of the repository; two further options of theirs, "I don't know" and "none of
the above", are never right and are left out.

More: :doc:`Serve a language model's confidence </guides/language-models>`.
"""

import json
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import softmax

from calibrant import AutoCalibrator
from calibrant.plots import ReliabilityDisplay

letters = np.array(["A", "B", "C", "D"])


def read(part):
    """Return the logits of the letters, and which letter is right."""
    log = Path("../../tests/data/logs", f"mmlu_yi-34b-chat_{part}.jsonl")
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    logits = np.array([[record["logits"][letter] for letter in letters] for record in records])
    return logits, np.array([record["label"] for record in records])


logits, y = read("val")
new_logits, new_y = read("test")

calibrator = AutoCalibrator(scores="logits").fit(logits, y)
found = {
    "the model": softmax(new_logits, axis=1),
    "calibrated": calibrator.predict_proba(new_logits),
}
answers = {name: letters[p.argmax(axis=1)] for name, p in found.items()}
for name, chosen in answers.items():
    print(f"{name}: {np.mean(chosen == new_y):.0%} of {len(new_y)} answers are right")

# %%
# The model favours a letter, whatever the question. A calibrator with a term for each letter takes
# that back, so the answers themselves get better; a temperature, which leaves the order of the
# options as it is, could not do that. On the right, how sure the model is of its answer and how
# often it is right: hollow points are no further from the diagonal than chance would have them.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
shown = {"the right answer": new_y, **answers}
shares = {name: [np.mean(chosen == letter) for letter in letters] for name, chosen in shown.items()}
for place, (name, colour) in enumerate(zip(shown, ("black", "#0072B2", "#D55E00"), strict=True)):
    where = np.arange(len(letters)) + 0.27 * (place - 1)
    left.bar(where, shares[name], 0.25, color=colour, label=name)
left.set_xticks(np.arange(len(letters)), letters)
left.set(xlabel="letter", ylabel="share of the questions")
left.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
left.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False)
for name, p in found.items():
    ReliabilityDisplay.from_predictions(new_y, p, kind="confidence", n_bins=10, name=name, ax=right)
favourite = int(np.argmax(shares["the model"]))
said, right_in = (shares[name][favourite] for name in ("the model", "the right answer"))
x = letters[favourite]
finding = f"The model answers {x} in {said:.0%} of the questions; {x} is right in {right_in:.0%}"
figure.suptitle(finding, fontweight="bold")
