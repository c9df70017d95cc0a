"""The family of a classifier, by its name, and the kind and size of the known data sets.

The first pattern of ``FAMILIES`` that matches the name, in lower case and anywhere in it, decides;
what matches none is "other". Data sets are those of the collection that the study ships with
results for; others have no kind, and take no part in claims that need one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from calibrant.study.table import StudyTable

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


class DataSet(NamedTuple):
    """What the claims need to know of a data set."""

    kind: str
    n_classes: int
    n_val: int


DATA_SETS = {
    "banking": DataSet("text", 77, 770),
    "cifar10": DataSet("image", 10, 2_500),
    "cifar100": DataSet("image", 100, 2_500),
    "cifar10h": DataSet("image", 10, 2_500),
    "clinc": DataSet("text", 150, 3_000),
    "emoji": DataSet("text", 20, 5_000),
    "hpc": DataSet("tabular", 4, 867),
    "letter": DataSet("tabular", 26, 3_000),
    "mnist": DataSet("image", 10, 2_500),
    "mnist5": DataSet("image", 5, 30_596),
    "ng20": DataSet("text", 20, 1_813),
    "ohsumed": DataSet("text", 23, 1_011),
    "r52": DataSet("text", 52, 642),
    "sst5": DataSet("text", 5, 1_101),
    "udhr-langid": DataSet("text", 493, 3_328),
    "yelp": DataSet("text", 5, 2_499),
}
"""Kind, number of classes and of rows to calibrate on, by the first half of the file's name."""


def family_of(model: str) -> str:
    """Return the family of a classifier, by its name.

    Examples
    --------
    >>> from calibrant.study.architectures import family_of
    >>> [family_of(name) for name in ("wrn-16-4", "gaussian-nb", "logreg", "unheard-of")]
    ['resnet', 'naive bayes', 'linear', 'other']
    """
    name = model.lower()
    return next((family for family, pattern in FAMILIES if re.search(pattern, name)), OTHER)


def families_of(table: StudyTable) -> tuple[str, ...]:
    """Return the family of every case of a table, in the order of its cases."""
    return tuple(family_of(model) for _, model in table.cases)
