# Every target makes its own virtual environment; only Python and pip are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test test-slow lint bench clean

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[cli]'
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

demo: $(VENV)/.run  ## the main job on data that comes with scikit-learn
	$(BIN)/python -m calibrant demo

test: $(VENV)/.dev lint  ## lint and the whole suite, in a few minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --durations 25 -m 'not slow'

test-slow: $(VENV)/.dev  ## checks that take longer
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench  ## speeds as ratios, measured in one run on one thread
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
