"""The family of a classifier, by its name.

The first pattern of ``FAMILIES`` that matches the name, in lower case and anywhere in it, decides;
what matches none is "other".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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


def family_of(model: str) -> str:
    """Return the family of a classifier, by its name."""
    name = model.lower()
    return next((family for family, pattern in FAMILIES if re.search(pattern, name)), OTHER)


def families_of(table: StudyTable) -> tuple[str, ...]:
    """Return the family of every case of a table, in the order of its cases."""
    return tuple(family_of(model) for _, model in table.cases)
