"""The claims of the paper, in its words, with the checks that decide on them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import claim_rules as rules
import printed
from calibrant.study import _ranks as ranks
from calibrant.study._tables import method_title, metric_title
from claim_rules import Check, Claim, Finding, both

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assumptions import Measured
    from calibrant.study._table import StudyTable

_UNPRINTED = Finding("not printed", None)


def judge_claims(table: StudyTable, measured: Mapping[str, Measured] | None = None) -> list[Claim]:
    """Judge the claims of the paper by a study.

    Parameters
    ----------
    table : StudyTable
    measured : mapping of str to Measured, optional
        From :func:`assumptions.measure_assumptions`; without it the claim about
        assumptions is not tested.

    Returns
    -------
    claims : list of Claim
    """
    sources = rules.read_paper(), rules.read_study(table)
    return [
        _best_nll(sources),
        _best_conf_ece(sources),
        _scir_nll(sources),
        _aware(table, sources),
        _linear(sources),
        _improves(sources),
        _many_classes(sources),
        _images(sources),
        _permutation(sources),
        _order(table, sources),
        _times(table),
        _assumptions(measured or {}),
        _uncertain(table),
        _by_model(table),
        _figure_1(table),
    ]


_Sources = tuple[rules.Source, rules.Source]


def _best_nll(sources: _Sources) -> Claim:
    return Claim(
        "NA-FIR has the best NLL",
        "Both our proposed methods, SCIR and NA-FIR, achieve state-of-the-art performance in terms "
        "of NLL loss and conf-ECE across all datasets.",
        (
            both(
                "NA-FIR has the lowest average NLL rank of the eight methods",
                partial(rules.lowest_rank_by, metric="nll", wanted=("na-fir",)),
                sources,
            ),
            both(
                "it has the lowest NLL rank on more data sets than any other",
                partial(rules.datasets_won, metric="nll", wanted="na-fir"),
                sources,
            ),
            both(
                "it has the most first places in NLL",
                partial(rules.most_firsts, metric="nll", wanted="na-fir"),
                sources,
            ),
        ),
    )


def _best_conf_ece(sources: _Sources) -> Claim:
    return Claim(
        "SCIR has the best conf-ECE, NA-FIR the steadier one",
        "In terms of conf-ECE, SCIR often achieves the best results, while NA-FIR demonstrates "
        "greater stability, consistently ranking among the top calibration methods.",
        (
            both(
                "SCIR and NA-FIR have the two lowest average conf-ECE ranks",
                partial(rules.lowest_rank_by, metric="conf-ece", wanted=("scir", "na-fir")),
                sources,
            ),
            both(
                "SCIR has the lowest average conf-ECE rank",
                partial(rules.lowest_rank_by, metric="conf-ece", wanted=("scir",)),
                sources,
            ),
            both(
                "SCIR has the most first places in conf-ECE",
                partial(rules.most_firsts, metric="conf-ece", wanted="scir"),
                sources,
            ),
            both(
                "NA-FIR's conf-ECE rank varies less over data sets than SCIR's",
                partial(rules.steadier, metric="conf-ece", first=("na-fir",), second=("scir",)),
                sources,
            ),
        ),
    )


def _scir_nll(sources: _Sources) -> Claim:
    def worse(source: rules.Source) -> Finding:
        if not (source.has("nll", "scir") and source.has("conf-ece", "scir")):
            return rules.NOTHING
        pair = source.rank["nll"]["scir"], source.rank["conf-ece"]["scir"]
        return Finding(f"NLL {pair[0]:.2f}, conf-ECE {pair[1]:.2f}", pair[0] >= pair[1] + 1.0)

    return Claim(
        "SCIR is poor in NLL",
        "SCIR consistently produces lower scores for NLL - an unwanted surprising property, "
        "especially when considering the well performing ECE metrics.",
        (
            both("SCIR ranks in NLL at least one place behind its conf-ECE", worse, sources),
            both(
                "SCIR's average NLL rank is behind that of TS",
                partial(rules.ranks_before, metric="nll", method="ts", rival="scir"),
                sources,
            ),
        ),
        "The paper attributes it to probabilities near zero. Our default mixes in a share of the "
        "temperature-scaled row, which cross-validation chooses: "
        "[SCIR](../explanation/scir.md#the-prior-share). The paper adds a small constant; "
        "[what it decides](../explanation/the-paper.md#the-small-constant) is measured.",
    )


def _aware(table: StudyTable, sources: _Sources) -> Claim:
    checks = []
    for metric in ("nll", "conf-ece"):
        title = metric_title(metric)
        checks += [
            both(
                f"NA-FIR ranks before FIR in {title} on most data sets",
                partial(rules.beats_on_datasets, metric=metric, method="na-fir", rival="fir"),
                sources,
            ),
            Check(
                f"NA-FIR is better in {title} on more classifiers than FIR (sign test, 0.05)",
                _UNPRINTED,
                rules.sign_test(table, metric, "na-fir", "fir"),
            ),
        ]
    return Claim(
        "Awareness of the normalisation pays: NA-FIR before FIR",
        "NA-FIR not only improves NLL but also conf-ECE when compared to FIR.",
        tuple(checks),
    )


def _linear(sources: _Sources) -> Claim:
    return Claim(
        "NA-FIR before the linear scalings",
        "NA-FIR outperforms linear scaling methods for most datasets except for the FOOD101 "
        "dataset where TS excels and Yelp Review where there is an abundance of examples in each "
        "class.",
        tuple(
            both(
                f"NA-FIR ranks before {method_title(rival)} in NLL on most data sets",
                partial(rules.beats_on_datasets, metric="nll", method="na-fir", rival=rival),
                sources,
            )
            for rival in ("ts", "vs", "ms")
        ),
    )


def _improves(sources: _Sources) -> Claim:
    return Claim(
        "Both methods improve on the uncalibrated classifier",
        "Our approach consistently improves negative log-likelihood (NLL) and expected calibration "
        "error (ECE) metrics.",
        tuple(
            both(
                f"{method_title(method)} ranks before Uncalibrated in {metric_title(metric)} on "
                "more than nine data sets of ten",
                partial(
                    rules.beats_on_datasets,
                    metric=metric,
                    method=method,
                    rival="uncalibrated",
                    share=0.9,
                ),
                sources,
            )
            for metric in ("nll", "conf-ece")
            for method in ("na-fir", "scir")
        ),
    )


def _many_classes(sources: _Sources) -> Claim:
    words = {
        "classes": "grows with the number of classes (correlation at least 0.5)",
        "rows": "falls with the rows for each class (correlation at most -0.5)",
    }
    return Claim(
        "MS and IR-OvR are hurt by many classes",
        "Both MS and IR OvR were greatly affected by the number of classes and samples provided.",
        tuple(
            both(
                f"{method_title(method)}'s {metric_title(metric)} rank {words[what]}",
                partial(rules.correlation, metric=metric, method=method, what=what),
                sources,
            )
            for method in ("ms", "ir-ovr")
            for metric in ("nll", "conf-ece")
            for what in ("classes", "rows")
        ),
    )


def _images(sources: _Sources) -> Claim:
    return Claim(
        "TS is better on images",
        "TS performed better on image classification datasets.",
        tuple(
            both(
                f"TS's mean {metric_title(metric)} rank is lower on images than on text",
                partial(rules.better_on_images, metric=metric, method="ts"),
                sources,
            )
            for metric in ("nll", "conf-ece")
        ),
    )


def _permutation(sources: _Sources) -> Claim:
    return Claim(
        "Permutation invariance helps: before IR-OvR",
        "The superior performance of both the cumulative approach and flattening methods compared "
        "to IR OvR indicates that leveraging permutation invariance enhances the model's "
        "generalization capabilities.",
        tuple(
            both(
                f"{method_title(method)} ranks before IR-OvR in {metric_title(metric)}",
                partial(rules.ranks_before, metric=metric, method=method, rival="ir-ovr"),
                sources,
            )
            for metric in ("nll", "conf-ece")
            for method in ("na-fir", "scir", "fir")
        ),
    )


def _order(table: StudyTable, sources: _Sources) -> Claim:
    across = [
        both(
            f"{metric_title(metric)}: their ranks vary less from data set to data set",
            partial(
                rules.steadier, metric=metric, first=rules.ORDER_PRESERVING, second=rules.OTHERS
            ),
            sources,
        )
        for metric in ranks.PAPER_METRICS
    ]
    within = [
        Check(
            f"{metric_title(metric)}: their ranks vary less within a data set",
            _UNPRINTED,
            rules.steadier_within(table, metric),
        )
        for metric in ranks.PAPER_METRICS
    ]
    return Claim(
        "Order-preserving methods are steadier",
        "Order preservation is a reasonable assumption, effectively acting as a classical "
        '"variance reduction" technique, as evidenced by the more stable results observed across '
        "and within each dataset for the respective methods.",
        (*across, *within),
    )


def _times(table: StudyTable) -> Claim:
    return Claim(
        "TS and VS are quick, NA-FIR and SCIR are not",
        "Both TS and VS are highly efficient, completing in a matter of seconds across all "
        "datasets. In contrast, SCIR and NA-FIR exhibit less favorable scaling behavior.",
        (
            Check(
                "every fit of TS takes less than 10 s",
                Finding("seconds", passed=True),
                rules.fit_time(table, "ts", 10.0),
            ),
            Check(
                "every fit of VS takes less than 10 s",
                Finding("seconds", passed=True),
                rules.fit_time(table, "vs", 10.0),
            ),
            Check(
                "the median fit of NA-FIR takes longer than those of TS and VS",
                Finding("about 15 min on YR and ImageNet", passed=True),
                rules.slower(table, "na-fir", ("ts", "vs")),
            ),
            Check(
                "the median fit of SCIR takes longer than those of TS and VS",
                Finding("1 s on YR, about 120 min on ImageNet", passed=True),
                rules.slower(table, "scir", ("ts", "vs")),
            ),
        ),
    )


def _assumptions(measured: Mapping[str, Measured]) -> Claim:
    return Claim(
        "The table of assumptions",
        "Multi-Class extensions and their underlying assumptions (Table 1).",
        tuple(
            rules.assumption(measured.get(method), method, name)
            for name in printed.ASSUMPTIONS
            for method in ("ms", "vs", "ts", "ir-ovr", "fir", "scir", "na-fir")
        ),
        "A check passes if a measurement on simulated predictions agrees with Table 1; "
        "`paper/assumptions.py` describes the measurements.",
    )


def _uncertain(table: StudyTable) -> Claim:
    said = Finding("shown for one classifier (Figure 2b)", passed=True)
    return Claim(
        "Awareness raises uncertainty",
        "Lower FIR probabilities are often inflated by NA-IR and vice versa. This phenomena "
        "effectively demonstrate that awareness has resulted in increased uncertainty in final "
        "predictions.",
        (
            Check(
                "NA-FIR's mean confidence is lower than FIR's on more classifiers (sign test)",
                said,
                rules.more_often(table, "mean-confidence", "na-fir", "fir", lower=True),
            ),
            Check(
                "of cells that FIR puts below 0.1, NA-FIR puts more than half higher (sign test)",
                said,
                rules.mostly(table, "low-inflated", "na-fir"),
            ),
            Check(
                "of cells that FIR puts above 0.9, NA-FIR puts more than half lower (sign test)",
                said,
                rules.mostly(table, "high-deflated", "na-fir"),
            ),
        ),
    )


def _by_model(table: StudyTable) -> Claim:
    said = Finding("CIFAR-100, and text models", passed=True)
    return Claim(
        "Over-confident models gain most",
        "Highly overconfident architectures (DenseNet, ResNet) benefit substantially from SCIR in "
        "comparison to other methods [...] Simpler models [...] exhibit greater calibration "
        "improvements.",
        (
            *(
                Check(
                    f"{method_title(method)} lowers conf-ECE by more where it is larger "
                    "(correlation at least 0.5)",
                    said,
                    rules.grows_with_overconfidence(table, method),
                )
                for method in ("scir", "na-fir", "ts")
            ),
            Check(
                "SCIR's conf-ECE rank is better on the half of the classifiers with the larger "
                "conf-ECE",
                said,
                rules.better_where_overconfident(table, "scir"),
            ),
        ),
        "The first three checks would pass for any method that calibrates well, as TS shows; only "
        "the last one compares with other methods.",
    )


def _figure_1(table: StudyTable) -> Claim:
    return Claim(
        "Only NA-FIR and SCIR are not rejected",
        "The uncalibrated model is highly over-confident and both our suggested methods are the "
        "only ones where we get positive p-value.",
        (
            *(
                Check(
                    f"{method_title(method)}: the test that its confidence is calibrated keeps "
                    "the hypothesis on most classifiers",
                    Finding("one classifier (Figure 1)", passed=True),
                    rules.share_not_rejected(table, method),
                )
                for method in ("na-fir", "scir")
            ),
            *(
                Check(
                    f"{method_title(method)}: it does not",
                    Finding("one classifier (Figure 1)", passed=True),
                    _reverse(rules.share_not_rejected(table, method)),
                )
                for method in ("fir", "ir-ovr", "ts", "vs", "ms", "uncalibrated")
            ),
        ),
    )


def _reverse(found: Finding) -> Finding:
    return Finding(found.words, None if found.passed is None else not found.passed)
