"""What holds for any valid input and every calibrator, and what each says of itself."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hynp

from calibrant import FlattenedIsotonic, NormalizationAwareIsotonic
from calibrators.catalogue import (
    CALIBRATORS,
    FEWER_EXAMPLES,
    MAPS_CELLS,
    ORDER_PRESERVING,
    PERMUTATION_INVARIANT,
    SEES_REPETITIONS,
    WITHOUT_FOLDS,
    make,
    quiet,
)
from conftest import refuses, simulate

pytestmark = quiet

each = pytest.mark.parametrize("cls", CALIBRATORS)


def holds_for(classes, **strategies):
    """Try a property of each class on drawn examples, on fewer where a fit takes long."""

    def decorate(prove):
        @pytest.mark.parametrize("cls", classes)
        def test(cls):
            def example(**drawn):
                prove(cls, **drawn)

            example.__name__ = example.__qualname__ = f"{prove.__name__}_{cls.__name__}"
            part = FEWER_EXAMPLES.get(cls.__name__, 1.0)
            n_examples = math.ceil(part * settings.default.max_examples)
            settings(max_examples=n_examples)(given(**strategies)(example))()

        test.__name__, test.__doc__ = prove.__name__, prove.__doc__
        return test

    return decorate


@st.composite
def calibration_sets(draw, max_rows=12):
    """Rows from a coarse grid (ties, zeros, ones) or of any size, with labels."""
    k = draw(st.integers(2, 5))
    m = draw(st.integers(1, max_rows))
    coarse = st.integers(0, 3).map(float)
    any_size = st.floats(1e-300, 1.0)
    cells = draw(st.sampled_from([coarse, any_size, st.floats(0.01, 1.0)]))
    masses = draw(hynp.arrays(float, (m, k), elements=cells))
    masses[masses.sum(axis=1) <= 0, 0] = 1.0
    p = masses / masses.sum(axis=1, keepdims=True)
    y = draw(hynp.arrays(np.int64, m, elements=st.integers(0, k - 1)))
    return p, y


def fitted(cls, p, y, weight=None, **parameters):
    calibrator = make(cls, **parameters)
    return calibrator.fit(p, y, sample_weight=weight)


def assert_same_map(one, two, p, *, exact=True):
    a, b = one.predict_proba(p), two.predict_proba(p)
    np.testing.assert_allclose(a, b, rtol=0, atol=0 if exact else 1e-4)


@holds_for(CALIBRATORS, data=calibration_sets())
def test_rows_are_on_the_simplex(cls, data):
    p, y = data
    out = fitted(cls, p, y).predict_proba(p)
    assert np.all(np.isfinite(out))
    assert out.min() >= 0
    assert out.max() <= 1 + 1e-15
    for row in out:
        assert abs(math.fsum(row) - 1) <= 8 * 2**-52 * p.shape[1] ** 0.5


@holds_for(CALIBRATORS, data=calibration_sets(), seed=st.integers(0, 99), equal=st.booleans())
def test_order_of_rows_changes_nothing(cls, data, seed, equal):
    """To 1e-9, with weights or without."""
    p, y = data
    rng = np.random.default_rng(seed)
    weight, order = rng.uniform(0.1, 3, len(p)), rng.permutation(len(p))
    one = fitted(cls, p, y, None if equal else weight)
    two = fitted(cls, p[order], y[order], None if equal else weight[order])
    np.testing.assert_allclose(two.predict_proba(p), one.predict_proba(p), rtol=1e-9, atol=1e-9)


@holds_for(PERMUTATION_INVARIANT, data=calibration_sets(), seed=st.integers(0, 99))
def test_order_of_columns_changes_nothing_of_a_shared_map(cls, data, seed):
    """Within rounding for closed forms; to the solver's tolerance otherwise."""
    p, y = data
    order = np.random.default_rng(seed).permutation(p.shape[1])
    place = np.argsort(order)
    one = fitted(cls, p, y).predict_proba(p)
    two = fitted(cls, p[:, order], place[y], classes=np.arange(p.shape[1])).predict_proba(
        p[:, order]
    )
    rtol = 4e-16 if cls.__name__ == "FlattenedIsotonic" else 1e-6
    np.testing.assert_allclose(two, one[:, order], rtol=rtol, atol=1e-12 * (rtol > 1e-12))


@holds_for(ORDER_PRESERVING, data=calibration_sets(), new=calibration_sets())
def test_order_of_classes_is_kept(cls, data, new):
    """p_i > p_j implies out_i >= out_j, and equal in means equal out, on rows never seen."""
    p, y = data
    rows = new[0] if new[0].shape[1] == p.shape[1] else p
    out = fitted(cls, p, y).predict_proba(rows)
    for before, after in zip(rows, out, strict=True):
        order = np.argsort(before, kind="stable")
        assert np.all(np.diff(after[order]) >= 0)
        same = np.diff(before[order]) == 0
        assert np.all(np.diff(after[order])[same] == 0)


@holds_for(CALIBRATORS, data=calibration_sets(), seed=st.integers(0, 99), most=st.integers(1, 3))
def test_weights_are_repetitions_and_zero_is_removal(cls, data, seed, most):
    """Removal to the bit."""
    p, y = data
    weight = np.random.default_rng(seed).integers(0, most + 1, len(p))
    weight[0] = 1
    classes = np.arange(p.shape[1])
    repeated = np.repeat(p, weight, axis=0), np.repeat(y, weight)
    one = fitted(cls, p, y, weight.astype(float), classes=classes)
    exact = most == 1 or cls in SEES_REPETITIONS
    assert_same_map(one, fitted(cls, *repeated, classes=classes), p, exact=exact)


@each
def test_chunks_give_the_same_bytes_as_the_whole(cls, monkeypatch):
    """Those of a caller, and those that predictions are computed in."""
    p, y = simulate(150, 4)
    calibrator = fitted(cls, p, y)
    whole = calibrator.predict_proba(p)
    parts = [calibrator.predict_proba(part) for part in np.split(p, [1, 70, 70])]
    assert np.concatenate(parts).tobytes() == whole.tobytes()
    monkeypatch.setattr("calibrant._gate._simplex.CHUNK_BYTES", 8 * 4 * 7)
    assert calibrator.predict_proba(p).tobytes() == whole.tobytes()


@each
def test_never_worse_than_uncalibrated_on_its_own_data(cls):
    """For over-confident scores, in squared error, which none of the methods increases here."""
    p, y = simulate(2000, 5)
    out = fitted(cls, p, y).predict_proba(p)
    hot = np.eye(5)[y]
    assert np.mean((out - hot) ** 2) < np.mean((p - hot) ** 2)


@each
def test_logits_and_their_softmax_agree(cls):
    p, y = simulate(300, 4)
    fixed = WITHOUT_FOLDS.get(cls.__name__, {})
    one = fitted(cls, p, y, **fixed)
    two = fitted(cls, np.log(p), y, scores="logits", **fixed)
    off = np.abs(one.predict_proba(p) - two.predict_proba(np.log(p))).max()
    assert off <= (1e-12 if cls in MAPS_CELLS else 2e-3)


@each
def test_numbers_that_are_not_finite_are_no_parameters(cls):
    p, y = simulate(200, 3)
    given = make(cls).get_params(deep=False)
    names = [name for name, value in given.items() if type(value) in {int, float}]
    assert "min_probability" in names
    for name, value in itertools.product(names, (np.inf, -np.inf, np.nan)):
        with refuses(name):
            make(cls).set_params(**{name: value}).fit(p, y)


# The paper's Table 1: order preserving, permutation invariant.
TABLE_1 = {
    "ts": (True, True),
    "vs": (False, False),
    "ms": (False, False),
    "ir-ovr": (False, False),
    "fir": (True, True),
    "na-fir": (True, True),
    "scir": (False, True),
}


def test_the_promises_of_the_paper():
    promises = {
        c.method: (c.keeps_order, c.same_for_all_classes) for c in CALIBRATORS if c.in_paper
    }
    assert promises == TABLE_1


@pytest.fixture(scope="module")
def tilted():
    """Predictions with a bias for class 0, which only a method that sees classes can remove."""
    p, y = simulate(3000, 4, seed=1)
    p = p * np.array([3.0, 1.0, 1.0, 0.5])
    return p / p.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("cls", CALIBRATORS)
def test_maps_are_what_they_promise(cls, tilted):
    """In order, and the same for all classes: permuting those of a row permutes its output."""
    p, y = tilted
    calibrator = make(cls).fit(p, y)
    out = calibrator.predict_proba(p)
    order, columns = np.argsort(p, axis=1), [2, 0, 3, 1]
    keeps_order = bool(np.all(np.diff(np.take_along_axis(out, order, axis=1), axis=1) >= 0))
    gap = np.abs(calibrator.predict_proba(p[:, columns]) - out[:, columns]).max()
    assert keeps_order is calibrator.map_.keeps_order is (cls in ORDER_PRESERVING)
    is_same = bool(gap < 1e-12)
    assert is_same is calibrator.map_.same_for_all_classes is (cls in PERMUTATION_INVARIANT)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("cls", CALIBRATORS)
def test_ties_are_broken_by_the_score(cls, kind):
    p, y = simulate(400, 4)
    scores = p if kind == "probabilities" else np.log(p)
    calibrator = make(cls, scores=kind).fit(scores, y)
    out, labels = calibrator.predict_proba(scores), calibrator.predict(scores)
    tied = out >= out.max(axis=1, keepdims=True) * (1 - 1e-14)
    assert labels.tolist() == np.where(tied, p, -1).argmax(axis=1).tolist()


@pytest.mark.parametrize("calibrator", [FlattenedIsotonic(), NormalizationAwareIsotonic()])
def test_labels_do_not_depend_on_names(calibrator):
    """Names sort the columns; the same data with others must not predict others."""
    p, y = simulate(300, 5)
    names, others = np.array(list("abcde")), np.array(list("ecadb"))
    order = np.argsort(others)
    two = calibrator.fit(p[:, order], others[y]).predict(p[:, order])
    one = calibrator.fit(p, names[y]).predict(p)
    top = np.sort(calibrator.predict_proba(p))[:, -2:]
    assert np.any(np.isclose(top[:, 0], top[:, 1], rtol=1e-14))
    assert np.searchsorted(names, one).tolist() == [others.tolist().index(t) for t in two]
