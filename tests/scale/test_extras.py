"""Engines are extras: without one, its module says how to install it."""

import importlib
import sys

import pytest


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_an_engine_that_is_not_installed_is_named_with_its_extra(monkeypatch, engine):
    module, package = f"calibrant.scale.{engine}", {"spark": "pyspark"}.get(engine, engine)
    monkeypatch.delitem(sys.modules, module, raising=False)
    loaded = [name for name in sys.modules if name.partition(".")[0] == package]
    for name in {package, *loaded}:
        monkeypatch.setitem(sys.modules, name, None)
    advice = rf"{module} needs {package}; install it with: pip install 'calibrant\[{engine}\]'"
    with pytest.raises(ImportError, match=advice):
        importlib.import_module(module)
