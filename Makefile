# Pepper's commands. `make` alone prints this list.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help setup run test services bench lint format lock
.NOTPARALLEL:

# The first Python that is new enough, best one that can make environments; `make PYTHON=/path/to/python3.12 setup`
# names another. The distribution's own comes first: it is built to be fast, and a Python that somebody compiled
# himself often is not (docs/performance.md).
PYTHONS := /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11
PYTHON ?= $(shell for modules in sys,ensurepip,venv sys; do for name in $(PYTHONS); do \
	if $$name -c "import $$modules; sys.exit(sys.version_info < (3, 11))" >/dev/null 2>&1; then echo $$name; exit; fi; \
	done; done)

VENV := .venv
BIN := $(VENV)/bin
LOCKS := deploy/locks
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
# pytest's workers (0: none) and further words for it: make test JOBS=0 ARGS='-k gate -x'
JOBS ?= auto
ARGS ?=

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.test $(VENV)/.dev-assets $(VENV)/.site ## make .venv with everything in it, .venv/bin/pepper included
	@echo "ready: $(BIN)/pepper"

run: $(VENV)/.runtime $(VENV)/.assets $(VENV)/.site ## serve on http://127.0.0.1:8080 (HOST= and PORT= change it)
	@exec $(BIN)/pepper serve $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT))

test: $(VENV)/.test $(VENV)/.dev-assets $(VENV)/.site ## run every test this machine can run (ARGS='...' goes to pytest)
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile $(ARGS)

services: ## install what the full tests need from Debian packages (needs root)
	@sh deploy/services.sh

bench: $(VENV)/.test ## run the benchmarks of docs/performance.md
	@$(BIN)/python -m tests.bench $(ARGS)

lint: $(VENV)/.test ## ruff, mypy and the floors of the architecture
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.test ## put the code into ruff's shape
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

lock: ## choose the newest versions anew and write deploy/locks
	@$(check-python)
	@sh $(LOCKS)/lock.sh "$(PYTHON)"

# ---------------------------------------------------------------------------------------------
# .venv: thrown away when a lock changes, so that nothing of an older lock stays in it.

define check-python
test -n "$(PYTHON)" || { echo "Pepper needs Python 3.11 or newer and found none: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }; \
"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Pepper needs Python 3.11 or newer; $(PYTHON) is not that: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }; \
"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv: apt-get install python3-venv" >&2; exit 1; }
endef

$(VENV)/.made: $(LOCKS)/runtime.txt $(LOCKS)/test.txt
	@$(check-python)
	@echo "making $(VENV)"
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.made pyproject.toml
	@echo "installing $(LOCKS)/runtime.txt"
	@$(PIP) install --require-hashes --requirement $(LOCKS)/runtime.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	@echo "installing $(LOCKS)/test.txt"
	@$(PIP) install --require-hashes --requirement $(LOCKS)/test.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.runtime $@

# What the panel's pages load, and with .dev-assets also what its tests look with.
$(VENV)/.assets: $(VENV)/.runtime panel/package-lock.json deploy/assets.py
	@$(BIN)/python deploy/assets.py
	@touch $@

$(VENV)/.dev-assets: $(VENV)/.test panel/package-lock.json deploy/assets.py
	@$(BIN)/python deploy/assets.py --dev
	@touch $(VENV)/.assets $@

# The documentation that the gateway serves at /docs.
$(VENV)/.site: $(VENV)/.assets $(wildcard docs/*.* docs/*/* deploy/theme/*.* deploy/theme/*/*.* deploy/theme/*/*/*) CHANGELOG.md deploy/site.py deploy/site.yml
	@if $(BIN)/python deploy/site.py; then touch $@; elif [ "$$CI" = true ]; then exit 1; \
	else echo "the documentation could not be built: /docs will not be served" >&2; fi
