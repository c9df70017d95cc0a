"""Small fits keep to one thread of the linear algebra, and give the others back."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from calibrant import TemperatureScaling
from calibrant.calibrators import blas
from conftest import simulate

CONTROLLER = ThreadpoolController().select(user_api="blas")


def n_threads():
    return [library.num_threads for library in CONTROLLER.lib_controllers]


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        if set(n_threads()) != {2}:
            pytest.skip("the linear algebra has one thread only")
        yield


@pytest.mark.parametrize(("large", "wanted"), [(blas.LARGE, 1), (0, 2)])
def test_a_small_fit_has_one_thread(monkeypatch, large, wanted):
    seen = []
    solve = TemperatureScaling._solve

    def look(self, batch):
        seen.extend(n_threads())
        return solve(self, batch)

    monkeypatch.setattr(TemperatureScaling, "_solve", look)
    monkeypatch.setattr(blas, "LARGE", large)
    TemperatureScaling().fit(*simulate(100, 3))
    assert set(seen) == {wanted}
    assert set(n_threads()) == {2}


def test_fits_in_threads_leave_the_number_of_threads_alone():
    with blas.few_threads(1, 2), ThreadPoolExecutor(1) as pool:
        pool.submit(TemperatureScaling().fit, *simulate(100, 3)).result()
        assert set(n_threads()) == {1}
    assert set(n_threads()) == {2}


def test_a_fit_that_fails_gives_all_threads_back(monkeypatch):
    monkeypatch.setattr(TemperatureScaling, "_solve", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        TemperatureScaling().fit(*simulate(100, 3))
    assert set(n_threads()) == {2}
