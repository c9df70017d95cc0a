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

.PHONY: dev demo docs check-docs test test-slow test-export test-data bench-export test-checked test-bounds \
	test-sanitizers lint bench evidence kernels bench-defaults bench-growth bench-peers wheel sbom clean

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

$(VENV)/.slow: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group spark
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

$(VENV)/.package: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --group package
	touch $@

kernels: $(VENV)/.run  ## built here, not by many processes at once
	$(TOOLS) MESONPY_EDITABLE_VERBOSE=1 $(BIN)/python -c 'import calibrant'

demo: kernels  ## an over-confident classifier before and after calibration
	$(BIN)/python -m calibrant demo
	@echo; echo 'In this clone the command is $(BIN)/calibrant.'

dev: $(VENV)/.dev kernels  ## the environment alone, in .venv

test: $(VENV)/.dev kernels lint  ## lint and the whole suite, in a few minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --durations 25

test-slow: $(VENV)/.slow kernels  ## checks that take longer; those of Spark where there is Java
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m slow

PURELIB := python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

# What export needs, in an environment of its own, before everything else from that of the other
# tests: the site directory is added by a call, which follows its editable install as well.
build/export/.ready: $(VENV)/.dev
	$(BIN)/python -m venv --without-pip build/export
	echo "import site; site.addsitedir('$$($(BIN)/$(PURELIB))')" \
	  > "$$(build/export/bin/$(PURELIB))/others.pth"
	build/export/bin/python -m pip install --quiet --group export
	touch $@

test-export: build/export/.ready kernels  ## export to other runtimes, which need large packages
	$(TOOLS) OMP_NUM_THREADS=1 MLFLOW_DISABLE_TELEMETRY=true build/export/bin/python -m pytest \
	  -n $(WORKERS) --dist worksteal --durations 10 \
	  tests/export tests/cli/test_export.py src/calibrant/export tests/hooks src/calibrant/hooks \
	  docs/guides/into-production.md docs/evidence/calarena.md

test-data: build/export/.ready kernels  ## of both, what reads more real predictions, those in DATA
	CALIBRANT_DATA='$(or $(DATA),../shared/data)' $(TOOLS) OMP_NUM_THREADS=1 \
	  MLFLOW_DISABLE_TELEMETRY=true build/export/bin/python -m pytest \
	  -n $(WORKERS) --dist worksteal --durations 10 -m 'collection and not slow'

bench-export: build/export/.ready kernels  ## exported calibrators beside predict_proba
	$(TOOLS) build/export/bin/python benchmarks/export.py

# Kernels with bounds checks, and kernels with gcc's sanitizers: each build in an environment of its
# own in build/, which takes everything else from that of the other tests.
test-checked: test-bounds test-sanitizers  ## kernels and model files, with every access checked

test-bounds: SETUP = -Dchecked=true
test-sanitizers: SETUP = -Db_sanitize=address,undefined \
	-Dc_args="['-fsanitize=float-cast-overflow','-fno-sanitize-recover=all']"
test-sanitizers: CHECKING = LD_PRELOAD="$(foreach name,asan ubsan stdc++,$(shell \
	$(CC) -print-file-name=lib$(name).so))" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1

test-bounds test-sanitizers: test-%: $(VENV)/.dev
	$(BIN)/python -m venv --without-pip build/$*
	$(BIN)/$(PURELIB) > "$$(build/$*/bin/$(PURELIB))/others.pth"
	$(TOOLS) build/$*/bin/python -m pip install --quiet --no-deps \
	  --no-build-isolation -Cbuild-dir=build/$*/meson -Csetup-args=-Dbuildtype=debug \
	  $(patsubst %,-Csetup-args=%,$(SETUP)) .
	OMP_NUM_THREADS=1 CALIBRANT_CHECKS=$* $(CHECKING) build/$*/bin/python -m pytest \
	  --capture sys -n $(WORKERS) --dist loadfile \
	  tests/kernels tests/maps tests/model_file

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

docs: $(VENV)/.docs kernels  ## the site, in build/site; a warning is an error
	rm -rf docs/reference/names docs/examples build/site
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	@echo build/site/index.html

check-docs: $(VENV)/.dev  ## of the site: links, names, code, searches and, where npm is, axe-core
	-command -v npm >/dev/null && npm install --silent --no-audit --prefix build/axe axe-core@4.14.0
	$(BIN)/python tools/check_site.py build/site build/axe/node_modules/axe-core/axe.min.js $(EVERY)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench kernels  ## speeds as ratios, measured in one run on one thread
	$(BIN)/python benchmarks/run.py

bench-defaults: kernels  ## default fits as ratios to a sort of the same numbers
	$(BIN)/python benchmarks/defaults.py

bench-growth: kernels  ## time and memory over rows and over classes
	$(BIN)/python benchmarks/growth.py

# Other packages, in an environment of their own: nothing of ours depends on them.
build/peers/.ready: benchmarks/peers_install.py
	$(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip install --quiet --upgrade pip
	build/peers/bin/python benchmarks/peers_install.py
	touch $@

bench-peers: build/peers/.ready kernels  ## beside other packages; with DATA=DIR on files, too
	$(BIN)/python benchmarks/peers.py
	$(if $(DATA),$(BIN)/python benchmarks/peers_quality.py '$(DATA)')

# Hours; what is measured already is not measured again. `tools/evidence.py status` lists the steps.
evidence: $(VENV)/.dev kernels  ## with DATA=DIR: the numbers of docs/evidence and docs/explanation
	$(if $(DATA),,$(error make evidence needs DATA=DIR, a directory of prediction files))
	OMP_NUM_THREADS=1 $(BIN)/python tools/evidence.py run '$(DATA)' $(STEPS)

wheel: $(VENV)/.package  ## what was committed as sdist and wheel, and the wheel tried without a compiler
	rm -rf dist build/again
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python .ci/check_dist.py dist/*.tar.gz dist/*.whl
	$(TOOLS) $(BIN)/python -m build --sdist --no-isolation --outdir build/again
	cmp dist/*.tar.gz build/again/*.tar.gz  # what was committed makes one sdist, whenever it is built
	$(PYTHON) -m venv --clear --without-pip build/fresh
	PATH= $(BIN)/python -m pip --python build/fresh/bin/python install --quiet "$$(echo dist/*.whl)[cli]"
	PATH= build/fresh/bin/python .ci/smoke.py

sbom: wheel  ## what calibrant and its command consist of when installed, in the words of CycloneDX
	$(BIN)/python -m cyclonedx_py environment --output-reproducible --pyproject pyproject.toml \
	  --output-file build/sbom.cdx.json build/fresh/bin/python

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
