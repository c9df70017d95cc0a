"""Verdicts follow from numbers: the rules on small tables, and the page that is written."""

import importlib

import numpy as np
import pytest

import architectures
import claim_rules as rules
import printed
from assumptions import Measured, measure_assumptions, measure_map, simulate
from calibrant.study import StudyTable, write_table
from claim_list import judge_claims
from claims import build_claims
from study.small_tables import PAPER, join, random_table, rows, table_of

TITLES = [
    "NA-FIR has the best NLL",
    "SCIR has the best conf-ECE, NA-FIR the steadier one",
    "SCIR is poor in NLL",
    "Awareness of the normalisation pays: NA-FIR before FIR",
    "NA-FIR before the linear scalings",
    "Both methods improve on the uncalibrated classifier",
    "MS and IR-OvR are hurt by many classes",
    "TS is better on images",
    "Permutation invariance helps: before IR-OvR",
    "Order-preserving methods are steadier",
    "TS and VS are quick, NA-FIR and SCIR are not",
    "The table of assumptions",
    "Awareness raises uncertainty",
    "Over-confident models gain most",
    "Only NA-FIR and SCIR are not rejected",
]
GOOD = Measured(0.0, 0.0, 0.0, 1.0)


def ordered(best_first, n=6, metric="nll", datasets=None, seconds=1.0):
    """A table in which methods rank as they are named, on every classifier."""
    values = np.tile(np.arange(len(best_first)) / 10 + 0.1, (n, 1))
    return table_of(values, best_first, metric, datasets, seconds)


def both_metrics(nll, conf_ece, n=6, datasets=None):
    return join(ordered(nll, n, "nll", datasets), ordered(conf_ece, n, "conf-ece", datasets))


def verdict_of(table, title, measured=None):
    return {claim.title: claim for claim in judge_claims(table, measured)}[title].verdict


# The paper's numbers


def test_table_two_is_whole_and_adds_up():
    assert list(printed.TABLE_2) == ["nll", "conf-ece", "brier", "cw-ece", "tece"]
    for lines in printed.TABLE_2.values():
        assert list(lines) == list(printed.DATA_SETS)
        for dataset, line in lines.items():
            assert sum(e.rank for e in line.values()) == pytest.approx(36, abs=0.41)
            shares = np.array([e.first for e in line.values()])
            assert sum(shares) == pytest.approx(1, abs=0.031)
            n = printed.DATA_SETS[dataset].n_models  # shares are those of whole classifiers
            assert np.abs(shares * n - np.round(shares * n)).max() <= 0.006 * n
    assert sum(d.n_models for d in printed.DATA_SETS.values()) == 75


def test_the_claims_about_ranks_pass_in_the_paper_s_own_table():
    claims = judge_claims(ordered(PAPER))
    by_title = {claim.title: claim for claim in claims}
    assert list(by_title) == TITLES
    for title in (TITLES[0], TITLES[2], TITLES[4], TITLES[7], TITLES[8]):
        assert all(check.paper.passed for check in by_title[title].checks), title
    # Table 2 itself does not have NA-FIR's conf-ECE the steadier one.
    assert [c.paper.passed for c in by_title[TITLES[1]].checks] == [True, True, True, False]


# The rule of all verdicts


@pytest.mark.parametrize(
    ("passed", "verdict"),
    [
        ([True, True], "holds"),
        ([True, None], "holds"),
        ([True, False], "holds in part"),
        ([False, None, False], "does not hold here"),
        ([None], "not tested here"),
        ([], "not tested here"),
    ],
)
def test_verdict_by_the_rule_that_the_page_states(passed, verdict):
    assert rules.reach_verdict(passed) == verdict


# Each claim, on tables that decide it


HOLDS, IN_PART, FAILS, UNTESTED = rules.HOLDS, rules.IN_PART, rules.FAILS, rules.UNTESTED
NLL = ("na-fir", "ts", "scir", "fir", "vs", "ms", "ir-ovr", "uncalibrated")
CONF_ECE = ("scir", "na-fir", "fir", "ts")
AWARE, UNAWARE = ("na-fir", "fir"), ("fir", "na-fir")
LINEAR = ("na-fir", "ts", "vs", "ms")
PERMUTATION = ("na-fir", "scir", "fir", "ir-ovr")
TIMED = ("ts", "vs", "na-fir", "scir")
GOOD_ROW, BAD_ROW = [0.1, 0.2], [0.2, 0.1]


def many_classes(hurt):
    """MS and IR-OvR rank first on few classes and last on many, or the other way round."""
    names = ["yelp", "mnist", "ng20", "r52", "cifar100", "udhr-langid"]
    ramp = np.linspace(0.0, 1.0, 6)
    slope = ramp if hurt else 1 - ramp
    values = np.stack([slope, slope + 0.01, np.full(6, 0.3), np.full(6, 0.7)], axis=1)
    methods = ("ms", "ir-ovr", "ts", "vs")
    return join(*(table_of(values, methods, metric, names) for metric in ("nll", "conf-ece")))


def on_images_and_text(*lines):
    names = ["cifar10", "mnist", "r52", "yelp"][-len(lines) :]
    return table_of(lines, ("ts", "fir"), datasets=names)


def timed(*seconds):
    return rows(
        ("a", "m", method, "nll", 0.1, own, "") for method, own in zip(TIMED, seconds, strict=True)
    )


@pytest.mark.parametrize(
    ("claim", "table", "verdict"),
    [
        (0, ordered(NLL), HOLDS),
        (0, ordered(("ts", "na-fir", *NLL[2:])), FAILS),
        # Second on four data sets, first on one with many classifiers: lowest average only.
        (0, table_of([GOOD_ROW] * 7 + [BAD_ROW] * 3, NLL[:2], datasets=[*"aaaaaaabcd"]), IN_PART),
        (2, both_metrics(("ts", "na-fir", "fir", "scir"), CONF_ECE), HOLDS),
        (2, both_metrics(("na-fir", "scir", "ts", "fir"), CONF_ECE), IN_PART),
        (2, both_metrics(("scir", "na-fir", "ts", "fir"), CONF_ECE), FAILS),
        (3, both_metrics(AWARE, AWARE), HOLDS),
        (3, both_metrics(AWARE, UNAWARE), IN_PART),
        (3, both_metrics(UNAWARE, UNAWARE), FAILS),
        # Five wins of five may be chance (p = 0.06), six are not (p = 0.03).
        (3, both_metrics(AWARE, AWARE, n=5), IN_PART),
        (4, ordered(LINEAR), HOLDS),
        (4, ordered(("ts", "na-fir", "vs", "ms")), IN_PART),
        (4, ordered(LINEAR[::-1]), FAILS),
        (6, many_classes(hurt=True), HOLDS),
        (6, many_classes(hurt=False), FAILS),
        (6, ordered(("ms", "ts"), datasets=[f"unknown{i}" for i in range(6)]), UNTESTED),
        (7, on_images_and_text(GOOD_ROW, GOOD_ROW, BAD_ROW, BAD_ROW), HOLDS),
        (7, on_images_and_text(BAD_ROW, BAD_ROW, GOOD_ROW, GOOD_ROW), FAILS),
        (7, on_images_and_text(*[GOOD_ROW] * 4), FAILS),
        (7, on_images_and_text(GOOD_ROW), UNTESTED),
        (8, both_metrics(PERMUTATION, PERMUTATION), HOLDS),
        (8, both_metrics(PERMUTATION, ("na-fir", "ir-ovr", "scir", "fir")), IN_PART),
        (8, both_metrics(PERMUTATION[::-1], PERMUTATION[::-1]), FAILS),
        (10, timed(0.1, 1.0, 2.0, 3.0), HOLDS),
        (10, timed(0.1, 11.0, 0.05, 0.01), IN_PART),
        (10, timed(20.0, 11.0, 2.0, 3.0), FAILS),
        (10, ordered(TIMED, seconds=float("nan")), UNTESTED),
    ],
)
def test_each_claim_is_decided_by_the_numbers(claim, table, verdict):
    assert verdict_of(table, TITLES[claim]) == verdict


@pytest.mark.parametrize(
    ("order", "names", "passed", "words"),
    [
        ("scir na-fir fir ts", ("scir", "na-fir"), True, "SCIR 1.00, NA-FIR 2.00, FIR 3.00"),
        ("scir na-fir fir ts", ("na-fir", "scir"), True, "SCIR 1.00, NA-FIR 2.00, FIR 3.00"),
        ("scir fir na-fir ts", ("scir", "na-fir"), False, "SCIR 1.00, FIR 2.00, NA-FIR 3.00"),
        ("ts fir vs na-fir", ("na-fir",), False, "TS 1.00, FIR 2.00; NA-FIR 4.00 (place 4)"),
    ],
)
def test_the_lowest_ranks_and_the_places_of_those_far_behind(order, names, passed, words):
    source = rules.read_study(ordered(order.split(), metric="conf-ece"))
    assert rules.lowest_rank(source, "conf-ece", names) == (words, passed)


def test_a_tie_for_the_lowest_rank_counts():
    table = table_of([[0.1, 0.2, 0.3], [0.2, 0.1, 0.3]], ("na-fir", "scir", "fir"), "conf-ece")
    source = rules.read_study(table)
    for method, passed in (("scir", True), ("na-fir", True), ("fir", False)):
        assert rules.lowest_rank(source, "conf-ece", (method,)).passed == passed


def test_sign_test_leaves_ties_out():
    table = table_of([[1.0, 2.0]] * 6 + [[1.0, 1.0]] * 9, ("na-fir", "fir"))
    found = rules.sign_test(table, "nll", "na-fir", "fir")
    assert found.words == "6 won, 0 lost, p = 0.031"
    assert found.passed
    tied = rules.sign_test(table_of([[1.0, 1.0]], ("na-fir", "fir")), "nll", "na-fir", "fir")
    assert tied == ("0 won, 0 lost, p = 1", False)


def test_improvement_needs_nine_data_sets_of_ten():
    for n_better, passed in ((9, False), (10, True)):
        lines = [GOOD_ROW] * n_better + [BAD_ROW] * (10 - n_better)
        source = rules.read_study(table_of(lines, ("na-fir", "uncalibrated")))
        found = rules.beats_on_datasets(source, "nll", "na-fir", "uncalibrated", 0.9)
        assert found == (f"{n_better} of 10 data sets", passed)


def test_order_preserving_methods_are_steadier():
    """Two halves of the table: a group that keeps its ranks and one that changes them."""
    steady, moving = rules.ORDER_PRESERVING, rules.OTHERS
    for first, second, passed in ((steady, moving, True), (moving, steady, False)):
        up = [*first, *second]
        down = [*first, *second[::-1]]
        values = np.arange(7.0)
        one = table_of([values], up, datasets=["a"])
        source = rules.read_study(join(one, table_of([values], down, datasets=["b"])))
        found = rules.steadier(source, "nll", steady, moving)
        assert found.passed == passed
        two = join(one, table_of([values], down, datasets=["a"], first=1))
        assert rules.steadier_within(two, "nll").passed == passed
    assert rules.steadier_within(one, "nll") == rules.NOTHING  # of one classifier


# Assumptions


def test_table_one_is_found_by_measuring():
    methods = ("ms", "vs", "ts", "ir-ovr", "fir", "scir", "na-fir")
    measured = measure_assumptions(methods)
    for method in methods:
        expected = {name: method in having for name, having in printed.ASSUMPTIONS.items()}
        assert measured[method].verdicts == expected, method
    assert verdict_of(ordered(PAPER), TITLES[11], measured) == "holds"


def test_a_wrong_cell_of_table_one_is_seen():
    measured = dict.fromkeys(("ms", "vs", "ts", "ir-ovr", "fir", "scir", "na-fir"), GOOD)
    assert verdict_of(ordered(PAPER), TITLES[11], measured) == "holds in part"
    assert verdict_of(ordered(PAPER), TITLES[11]) == "not tested here"


def test_maps_that_break_one_assumption_each():
    rows, labels = simulate(500)
    reverse = measure_map(lambda p: (1 - p) / (1 - p).sum(axis=1, keepdims=True), rows, labels)
    assert reverse.reversed_share == 1.0
    assert reverse.permuted_gap < 1e-12
    weights = np.arange(1.0, 9.0)
    biased = measure_map(lambda p: p * weights / (p * weights).sum(axis=1)[:, None], rows, labels)
    assert biased.permuted_gap > 0.01
    assert biased.others_gap < 1e-9
    mixed = measure_map(lambda p: 0.5 * p + 0.5 * p.max(axis=1)[:, None] / 8, rows, labels)
    assert mixed.others_gap > 0.01


# The page


def full_table(best):
    """Every metric and method; one method is first in NLL everywhere."""
    cases = [("r52", "nb"), ("r52", "mlp"), ("cifar10", "lenet5"), ("yelp", "nb"), ("ng20", "nb")]
    frame = random_table(cases, PAPER).frame
    frame.loc[(frame["metric"] == "nll") & (frame["method"] == best), "value"] = 0.01
    return StudyTable(frame)


def test_the_page_says_so_and_why_where_they_do_not():
    table = full_table("vs")
    page = build_claims(table)
    assert "best average NLL rank of the eight methods: **No** (VS 1.00" in page
    line = next(x for x in page.splitlines() if x.startswith("- VS ranks before NA-FIR by"))
    assert "over resampled data sets the difference is" in line
    assert "It is better on 5 of 5 classifiers, most of r52 (2)" in line
    accuracy = table.wide("accuracy")
    n_better = (accuracy["vs"] > accuracy["na-fir"]).sum()
    assert f"On {n_better} of these it is also more accurate." in line


def test_the_page_has_the_paper_s_numbers_beside_ours():
    page = build_claims(full_table("na-fir"))
    assert "best average NLL rank of the eight methods: Yes (NA-FIR 1.00" in page
    before, claim, _ = page.partition("two best conf-ECE")
    assert claim
    assert "ranks before NA-FIR" not in before
    line = next(x for x in page.splitlines() if x.startswith("| NLL | paper |"))
    assert line.startswith("| NLL | paper | **2.05 (46%)** | 5.03 (5%) |")
    ours = next(x for x in page.splitlines() if x.startswith("| NLL | here |"))
    assert ours.startswith("| NLL | here | **1.00 (100%)** |")
    for number, title in enumerate(TITLES, 1):
        assert f"## {number}. {title}" in page
    assert rules.RULE in page
    assert page.count("Verdict: ") == len(TITLES)


def test_the_script_writes_the_page_from_a_table_of_two_methods(tmp_path, monkeypatch, capsys):
    module = importlib.import_module("write_claims")
    results = write_table(ordered(("ts", "uncalibrated")), tmp_path / "table.csv")
    page = tmp_path / "page.md"
    monkeypatch.setattr("sys.argv", ["write_claims.py", str(results), str(page)])
    module.main()
    text = page.read_text("utf-8")
    assert text.startswith("# The paper's claims")
    assert "not tested here" in text
    assert str(page) in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["write_claims.py"])
    with pytest.raises(SystemExit, match="RESULTS"):
        module.main()


# A study by architecture


def test_architectures_have_the_families_of_the_paper():
    families = {
        "resnet": "wrn-16-4 Resnet110 Wideresnet ResNetRS-B",
        "densenet": "densenet-bc-100 Densenet121",
        "vgg": "vgg16-bn Vgg16",
        "lenet": "lenet5",
        "other cnn": "mobilenet-v2 MobileNetV3",
        "convnext": "ConvNeXT",
        "linear": "logreg",
        "naive bayes": "nb gaussian-nb",
        "mlp": "mlp",
        "neighbours": "knn9",
        "fasttext": "fasttext fast-text",
        "svm": "svm-linear SVC",
        "transformer": "bert-base-uncased vit-1 albert-base-v2 bert-large-uncased gpt2-hf Eva Beit "
        "distilbert-base-uncased xlnet-base-cased roberta-hf ZS-deberta-base Swin-1 ViT ViT-2",
        "other": "cleanlab-crossval splinecalib-sample",
    }
    for family, names in families.items():
        assert {architectures.family_of(name) for name in names.split()} == {family}


def test_families_take_the_place_of_data_sets():
    lines = [("r52", "nb"), ("ng20", "nb"), ("cifar10", "resnet50")]
    table = architectures.by_architecture(random_table(lines, ("ts", "vs"), ("nll",)))
    assert table.cases == [
        ("naive bayes", "ng20/nb"),
        ("naive bayes", "r52/nb"),
        ("resnet", "cifar10/resnet50"),
    ]
