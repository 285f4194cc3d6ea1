# Needs Python 3.11 or newer, git and make. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
OLDEST_PYTHON ?= python3.11
OLDEST_VENV ?= .venv-oldest
PDC_PYTHON ?= python3.11

BIN := $(VENV)/bin
PIP_INSTALL := -m pip install -q --disable-pip-version-check
# The workers of pytest are the parallelism: a BLAS thread pool in each would only get in their way.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# Compiled code of another numba is kept apart: its index is written before it, so that what the other left might be read.
PYTEST_OLDEST = NUMBA_CACHE_DIR=$(abspath $(OLDEST_VENV))/numba $(PYTEST)
# pyparsing is held back for matplotlib 3.8, whose calls later ones deprecate, and click for typer 0.16.
OLDEST := "numpy==1.26.*" "scipy==1.11.*" "scikit-learn==1.6.*" "numba==0.59.*" "matplotlib==3.8.*" "pandas==2.1.*" "polars==1.0.*" \
	"pyparsing==3.1.*" "pyarrow==15.*" "typer==0.16.*" "click==8.2.*"
# What depends on the version of scikit-learn: 1.6 has no callbacks.
SKLEARN_TESTS := tests/estimators/test_callbacks.py tests/estimators/test_scikit_learn.py tests/display
# What madbayes is measured against, each in an environment of its own; pdc-dp-means needs an old scikit-learn.
PDC := pdc-dp-means==0.0.8 scikit-learn==1.2.2 numpy==1.24.4
HDBSCAN := hdbscan==0.8.44

# $(call make-venv,python,folder,variable): stops with advice where that python is missing or too old.
define make-venv
	@$(1) -c "" 2>/dev/null || { echo "There is no $(1) here. Name a Python 3.11 or newer: make $(MAKECMDGOALS) $(3)=python3.12" >&2; exit 1; }
	@$(1) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "madbayes needs Python 3.11 or newer, and $(1) is $$($(1) -V 2>&1). Name another: make $(MAKECMDGOALS) $(3)=python3.12" >&2; exit 1; }
	@echo "Making a virtual environment in $(2)"
	@$(1) -m venv $(2)
	@echo "*" > $(2)/.gitignore
	@touch $@
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint docs outputs test-oldest test-oldest-sklearn test-bounds bench equations clean

help:
	@echo "make demo         from made-up customers and dice to two reports, in demo/"
	@echo "make test         ruff, mypy, and the tests with their coverage; they build the documentation, too"
	@echo "make lint         ruff and mypy only"
	@echo "make docs         build the documentation into build/site, warnings being errors"
	@echo "make outputs      write what the code of the pages prints into the pages"
	@echo "make test-oldest  the tests on the oldest supported dependencies (OLDEST_PYTHON=python3.11)"
	@echo "make test-oldest-sklearn  of these only what depends on scikit-learn: estimators without its callbacks (some minutes)"
	@echo "make test-bounds  the engine's tests with every index into an array checked (slow)"
	@echo "make bench        the engine and whole fits against named baselines, as tables (PDC_PYTHON=python3.11)"
	@echo "make equations    write docs/equations.md from the docstrings"
	@echo "make clean        remove environments, caches and what the demo wrote"
	@echo "PYTHON=python3.12 chooses the Python, VENV=folder the place of its environment."

demo: $(VENV)/.installed-app
	@echo "Running madbayes demo"
	@$(BIN)/madbayes demo --out demo --force

test: lint
	@echo "Running the tests"
	@$(PYTEST) $(BIN)/python -m pytest -q -rs -n auto --cov --cov-branch --cov-fail-under=95

lint: $(VENV)/.installed-dev
	@echo "Checking with ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "Checking types with mypy"
	@$(BIN)/mypy

docs: $(VENV)/.installed-docs
	@echo "Building the documentation"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "The documentation is in build/site: open build/site/index.html"

outputs: $(VENV)/.installed-docs
	@echo "Running the code of the pages"
	@$(BIN)/python tools/pages.py

test-oldest: $(OLDEST_VENV)/.installed-oldest
	@echo "Running the tests on the oldest supported dependencies"
	@$(PYTEST_OLDEST) $(OLDEST_VENV)/bin/python -m pytest -q -n auto

test-oldest-sklearn: $(OLDEST_VENV)/.installed-oldest
	@echo "Running the tests of estimators among scikit-learn's on the oldest supported dependencies"
	@$(PYTEST_OLDEST) $(OLDEST_VENV)/bin/python -m pytest -q -n auto $(SKLEARN_TESTS)

test-bounds: $(VENV)/.installed-dev
	@echo "Running the tests of the engine with indices checked"
	@$(PYTEST) NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/bounds-cache $(BIN)/python -m pytest -q -n auto tests/engine tests/estimators

bench: $(VENV)/.installed-dev .venv-pdc/.installed .venv-hdbscan/.installed
	@echo "Running benchmarks/engine.py (some minutes); an idle machine gives better figures"
	@$(BIN)/python benchmarks/engine.py
	@echo "Running benchmarks/peers.py (about ten minutes)"
	@$(BIN)/python benchmarks/peers.py

equations: $(VENV)/.made
	@echo "Writing docs/equations.md"
	@$(BIN)/python tools/equations.py

clean:
	@echo "Removing .venv, .venv-oldest, .venv-pdc, .venv-hdbscan, caches, build outputs and demo/"
	@rm -rf .venv .venv-oldest .venv-pdc .venv-hdbscan .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* build dist demo
	@find src tests tools examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written when its step has succeeded, so that the next run starts where this one ended.
$(VENV)/.made:
	$(call make-venv,$(PYTHON),$(VENV),PYTHON)

$(OLDEST_VENV)/.made:
	$(call make-venv,$(OLDEST_PYTHON),$(OLDEST_VENV),OLDEST_PYTHON)

$(VENV)/.installed-%: $(VENV)/.made pyproject.toml
	@echo "Installing madbayes[$*] into $(VENV) (some minutes on the first run)"
	@$(BIN)/python $(PIP_INSTALL) -e ".[$*]"
	@touch $@

$(OLDEST_VENV)/.installed-oldest: $(OLDEST_VENV)/.made pyproject.toml Makefile
	@echo "Installing madbayes[dev] with the oldest supported dependencies into $(OLDEST_VENV)"
	@$(OLDEST_VENV)/bin/python $(PIP_INSTALL) -e ".[dev]" $(OLDEST)
	@touch $@

.venv-pdc/.made:
	@$(PDC_PYTHON) -c "import sys; sys.exit(sys.version_info[:2] != (3, 11))" 2>/dev/null || { echo "pdc-dp-means and the scikit-learn it needs exist for Python 3.11 at most, and madbayes begins there: name a Python 3.11 with make $(MAKECMDGOALS) PDC_PYTHON=..., or run $(BIN)/python benchmarks/engine.py, which needs no other library" >&2; exit 1; }
	$(call make-venv,$(PDC_PYTHON),.venv-pdc,PDC_PYTHON)

.venv-hdbscan/.made:
	$(call make-venv,$(PYTHON),.venv-hdbscan,PYTHON)

.venv-pdc/.installed: .venv-pdc/.made Makefile
	@echo "Installing $(PDC) into .venv-pdc"
	@.venv-pdc/bin/python $(PIP_INSTALL) $(PDC)
	@touch $@

.venv-hdbscan/.installed: .venv-hdbscan/.made Makefile
	@echo "Installing $(HDBSCAN) into .venv-hdbscan"
	@.venv-hdbscan/bin/python $(PIP_INSTALL) $(HDBSCAN)
	@touch $@
