# Needs Python 3.11 or newer, git and make. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
OLDEST_PYTHON ?= python3.11
OLDEST_VENV ?= .venv-oldest

BIN := $(VENV)/bin
PIP_INSTALL := -m pip install -q --disable-pip-version-check
# The workers of pytest are the parallelism: a BLAS thread pool in each would only get in their way.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# pyparsing is held back for matplotlib 3.8, whose calls later ones deprecate.
OLDEST := "numpy==1.26.*" "scipy==1.11.*" "scikit-learn==1.6.*" "numba==0.59.*" "matplotlib==3.8.*" "pandas==2.1.*" "polars==1.0.*" \
	"pyparsing==3.1.*"

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
.PHONY: help demo test lint test-oldest bench equations clean

help:
	@echo "make demo         find the pips in noisy pictures of dice; tables on screen, a picture in demo/"
	@echo "make test         ruff, mypy, and the tests with their coverage"
	@echo "make lint         ruff and mypy only"
	@echo "make test-oldest  the tests on the oldest supported dependencies (OLDEST_PYTHON=python3.11)"
	@echo "make bench        the engine against named baselines, as a table of ratios"
	@echo "make equations    write docs/equations.md from the docstrings"
	@echo "make clean        remove environments, caches and what the demo wrote"
	@echo "PYTHON=python3.12 chooses the Python, VENV=folder the place of its environment."

demo: $(VENV)/.installed-plot
	@echo "Running examples/demo.py"
	@$(BIN)/python examples/demo.py --out demo

test: lint
	@echo "Running the tests"
	@$(PYTEST) $(BIN)/python -m pytest -q -n auto --cov --cov-branch --cov-fail-under=95

lint: $(VENV)/.installed-dev
	@echo "Checking with ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "Checking types with mypy"
	@$(BIN)/mypy

test-oldest: $(OLDEST_VENV)/.installed-oldest
	@echo "Running the tests on the oldest supported dependencies"
	@$(PYTEST) $(OLDEST_VENV)/bin/python -m pytest -q -n auto

bench: $(VENV)/.installed-dev
	@echo "Running benchmarks/engine.py (some minutes); an idle machine gives better figures"
	@$(BIN)/python benchmarks/engine.py

equations: $(VENV)/.made
	@echo "Writing docs/equations.md"
	@$(BIN)/python tools/equations.py

clean:
	@echo "Removing .venv, .venv-oldest, caches, build outputs and demo/"
	@rm -rf .venv .venv-oldest .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* build dist demo
	@find src tests tools examples experiments -name __pycache__ -type d -prune -exec rm -rf {} +

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
