"""Threads change how long work takes, and nothing else."""

import _thread
import threading
import time
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import ThreadpoolController, threadpool_limits

import calibrant
from calibrant import _notices as notices
from calibrant import _threads as threads
from calibrant import errors, metrics, report
from calibrant._gate import _simplex as simplex
from calibrators.catalogue import CALIBRATORS, make
from conftest import refuses, simulate

P, Y = simulate(240, 4)
NEW = simulate(700, 4, seed=1)[0]
MORE = {  # what cross-validates, besides the methods as they are tested everywhere
    "AutoCalibrator": {"candidates": None, "cv": 3},
    "Chain": {"calibrators": [calibrant.MonotoneSpline(), calibrant.SortedCumulativeIsotonic()]},
}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def small_chunks(monkeypatch):
    """So many that there is work for several threads."""
    monkeypatch.setattr(simplex, "SMALL_CHUNK_BYTES", 8)
    monkeypatch.setattr(simplex, "SMALL_CHUNK_ROWS", 64)


@pytest.fixture(autouse=True)
def no_fit_is_small(monkeypatch):
    """So that a few rows show what many do."""
    monkeypatch.setattr(threads, "FEW_CELLS", 0)


@pytest.fixture
def pools(monkeypatch):
    """Numbers of threads of all pools that are made."""
    made = []

    class Pool(threads.ThreadPoolExecutor):
        def __init__(self, n_threads, *arguments):
            made.append(n_threads)
            super().__init__(n_threads, *arguments)

    monkeypatch.setattr(threads, "ThreadPoolExecutor", Pool)
    return made


def run(work, tasks, n_jobs=2):
    with threads.jobs(n_jobs):
        return list(threads.each(work, tasks))


# What n_jobs means


def test_n_jobs_is_that_of_scikit_learn_and_none_what_the_context_says(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    counts = {None: 1, 1: 1, np.int64(3): 3, -1: 8, -2: 7, -100: 1}
    assert {n_jobs: threads.count_threads(n_jobs) for n_jobs in counts} == counts
    with parallel_config(n_jobs=-2):
        assert [threads.count_threads(n_jobs) for n_jobs in (None, 2)] == [7, 2]
    with threads.jobs(3), threads.jobs(None):
        assert threads.count_threads(None) == 3
    assert threads.count_threads(None) == 1


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True, np.array([2])])
def test_nonsense_is_refused_by_name(n_jobs):
    for work in (
        lambda: calibrant.FlattenedIsotonic(n_jobs=n_jobs).fit(P, Y),
        lambda: calibrant.CalibratedClassifier(GaussianNB(), n_jobs=n_jobs).fit(P, Y),
        lambda: metrics.calibration_test(Y, P, n_jobs=n_jobs),
        lambda: report.compare(Y, P, Y, P, "ts", n_jobs=n_jobs),
    ):
        with refuses("n_jobs"):
            work()


def test_one_thread_and_little_work_make_no_pool(pools):
    calibrator = calibrant.NormalizationAwareIsotonic(n_jobs=1).fit(P, Y)
    calibrator.predict_proba(NEW)
    calibrator.set_params(n_jobs=4).predict_proba(NEW)
    assert pools == []
    assert run(lambda task: task, [1, 2, 3], n_jobs=8) == [1, 2, 3]
    assert pools == [3]


def test_a_small_fit_has_one_thread(monkeypatch, pools):
    monkeypatch.setattr(threads, "FEW_CELLS", P.size + 1)
    calibrant.NormalizationAwareIsotonic(n_jobs=4).fit(P, Y)
    assert pools == []


# The same bits


@pytest.mark.parametrize("cls", CALIBRATORS)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.usefixtures("small_chunks")
def test_the_number_of_threads_changes_no_bit(pools, cls, kind):
    scores, new = (P, NEW) if kind == "probabilities" else (np.log(P), np.log(NEW))
    one = make(cls, scores=kind, n_jobs=1, **MORE.get(cls.__name__, {})).fit(scores, Y)
    assert pools == []
    for n_jobs in (2, 5):
        other = clone(one).set_params(n_jobs=n_jobs).fit(scores, Y)
        assert other.predict_proba(new).tobytes() == one.predict_proba(new).tobytes()
        assert other.predict(new).tobytes() == one.predict(new).tobytes()
    assert set(pools) <= {2, 3, 4, 5}
    assert {2, 5} <= set(pools)


@pytest.mark.parametrize(
    ("metric", "more"),
    [
        (metrics.evaluate, {"groups": np.arange(240) % 2}),
        (metrics.calibration_test, {}),
        (metrics.reliability_curve, {}),
    ],
)
def test_metrics_are_the_same_in_threads(monkeypatch, pools, metric, more):
    monkeypatch.setattr(simplex, "CHUNK_BYTES", 8 * 4 * 100)
    options = {"n_resamples": 70, "sample_weight": np.arange(240) % 3, **more}
    one = metric(Y, P, **options)
    assert pools == []
    assert repr(metric(Y, P, **options, n_jobs=3).to_dict()) == repr(one.to_dict())
    assert set(pools) == {3}


# The same warnings, errors and settings


def warn_of(task):
    notices.warn(errors.CalibrantWarning(f"warning of {task}"))
    return task


@pytest.mark.usefixtures("small_chunks")
def test_warnings_come_in_order_from_the_line_that_asked():
    gate = threading.Event()

    def last_first(task):
        gate.wait(10) if task == 0 else gate.set()
        return warn_of(task)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert run(last_first, range(4)) == [0, 1, 2, 3]
        logits = calibrant.TemperatureScaling(scores="logits", n_jobs=2)
        logits.fit(np.log(P), Y).predict_proba(NEW)
    words = [str(w.message) for w in caught]
    assert words[:4] == [f"warning of {task}" for task in range(4)]
    assert [w.category for w in caught[4:]] == [errors.ScoresKindWarning]
    assert {w.filename for w in caught} == {__file__}


def test_the_first_error_in_order_reaches_who_asked():
    gate, done = threading.Event(), []

    def fail(task):
        if task == 0:
            gate.wait(10)
        elif task == 1:
            gate.set()
        else:
            time.sleep(0.01)
        done.append(task)
        raise KeyError(task)

    with pytest.raises(KeyError) as caught:
        run(fail, range(1000))
    assert caught.value.args == (0,)
    assert caught.traceback[-1].name == "fail"
    assert len(done) < 1000  # the others were not begun


def test_threads_have_the_settings_of_who_asked():
    def look(_):
        return np.geterr()["over"], get_config()["assume_finite"]

    with np.errstate(over="raise"), config_context(assume_finite=True):
        assert run(look, range(3)) == [("raise", True)] * 3


def test_ctrl_c_ends_it_before_the_work_is_done():
    started, end = threading.Event(), threading.Event()

    def work(_):
        started.set()
        return end.wait(30)

    threading.Thread(target=lambda: started.wait(30) and _thread.interrupt_main()).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(work, range(4))
        assert not end.is_set()
    finally:
        end.set()


# Threads of the linear algebra

CONTROLLER = ThreadpoolController().select(user_api="blas")


def blas_threads():
    return {library.num_threads for library in CONTROLLER.lib_controllers}


@pytest.fixture
def two_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("the linear algebra has one thread only")
        yield


@pytest.fixture
def seen(monkeypatch):
    """Numbers of BLAS threads during the fits of any method."""
    found = []
    for cls in (calibrant.TemperatureScaling, calibrant.MatrixScaling):

        def look(self, batch, solve=cls._solve):
            found.append(blas_threads())
            return solve(self, batch)

        monkeypatch.setattr(cls, "_solve", look)
    return found


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_only_large_products_have_more_than_one_blas_thread(monkeypatch, seen, n_jobs):
    matrix, temperature = calibrant.MatrixScaling(n_jobs=n_jobs), calibrant.TemperatureScaling()
    matrix.fit(P, Y)
    monkeypatch.setattr(threads, "LARGE", 1)
    temperature.fit(P, Y)
    matrix.fit(P, Y)
    assert seen == [{1}, {1}, {2}]
    seen.clear()  # within another fit, where n_jobs may put them on threads of their own
    calibrant.Chain([temperature, matrix], cv=3, n_jobs=n_jobs).fit(P, Y)
    assert seen == [{1}] * 5
    assert blas_threads() == {2}


def test_a_warning_that_is_an_error_reaches_who_asked():
    with warnings.catch_warnings(action="error"), pytest.raises(errors.CalibrantWarning):
        run(warn_of, range(4))
