"""A study by architecture: ``python paper/architectures.py RESULTS OUT``.

RESULTS is the table that ``calibrant study`` writes. OUT gets the same tables, figures and page,
with families of classifiers in place of data sets. The first pattern of ``FAMILIES`` that matches
the name, in lower case and anywhere in it, decides; what matches none is "other".
"""

from __future__ import annotations

import re
import sys

from calibrant.study import StudyTable, read_table, write_outputs

OTHER = "other"

FAMILIES = (
    ("human", r"human"),
    ("densenet", r"densenet"),
    ("resnet", r"resnet|resnext|wrn|wide-?res"),
    ("vgg", r"vgg"),
    ("other cnn", r"mobilenet|googlenet|inception|efficientnet"),
    ("lenet", r"lenet"),
    ("transformer", r"bert|xlnet|gpt|roberta|vit\b|swin|beit|eva\d*\b|deit|electra|t5\b"),
    ("fasttext", r"fast-?text"),
    ("text cnn, rnn", r"swem|kim-?cnn|text-?cnn|lstm|gru\b"),
    ("convnext", r"convnext"),
    ("mlp", r"mlp|perceptron"),
    ("naive bayes", r"naive-?bayes|(^|[^a-z])[gm]?nb([^a-z]|$)"),
    ("svm", r"svm|svc"),
    ("linear", r"logreg|logistic|lda|linear|ridge|sgd"),
    ("neighbours", r"knn|neighbou?r"),
    ("trees", r"forest|tree|boost|xgb|lgbm"),
)
"""(family, regular expression), tried from the top."""


def family_of(model: str) -> str:
    """Return the family of a classifier, by its name."""
    name = model.lower()
    return next((family for family, pattern in FAMILIES if re.search(pattern, name)), OTHER)


def by_architecture(table: StudyTable) -> StudyTable:
    """Return a table with families in place of data sets: classifiers are "data set/model"."""
    frame = table.frame
    names = frame["dataset"] + "/" + frame["model"]
    return StudyTable(frame.assign(dataset=frame["model"].map(family_of), model=names))


def main() -> None:
    """Write the outputs that the command line asks for."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_outputs(by_architecture(read_table(sys.argv[1])), sys.argv[2])
    print(f"wrote {sys.argv[2]}/index.html")


if __name__ == "__main__":
    main()
