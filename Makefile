# Every target makes its own virtual environment; Python, pip and a C compiler are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
TOOLS := PATH="$(abspath $(BIN)):$$PATH"  # meson and ninja of the environment

# Where there is no C compiler, the one of a package from PyPI, for any processor of the kind.
ifeq ($(origin CC)$(shell command -v cc || command -v gcc || command -v clang),default)
ZIG := --group zig
export CC := $(abspath $(BIN))/python-zig cc -mcpu=baseline
export AR := $(abspath $(BIN))/python-zig ar
endif

.PHONY: demo test test-slow lint bench kernels clean

# Editable: what is changed in src/ is what runs. Compiled modules are built again on import.
$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group build $(ZIG)
	$(TOOLS) $(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[cli]'
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

kernels: $(VENV)/.run  ## built here, not by many processes at once
	$(TOOLS) MESONPY_EDITABLE_VERBOSE=1 $(BIN)/python -c 'import calibrant'

demo: kernels  ## the main job on data that comes with scikit-learn
	$(BIN)/python -m calibrant demo

test: $(VENV)/.dev kernels lint  ## lint and the whole suite, in a few minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --durations 25 -m 'not slow'

test-slow: $(VENV)/.dev kernels  ## checks that take longer
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench kernels  ## speeds as ratios, measured in one run on one thread
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
