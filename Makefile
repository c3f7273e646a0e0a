# pagedviz: `make help` lists the targets. Needs make and Python 3.11 or newer, nothing else;
# `make PYTHON=python3.12 app` chooses an interpreter, `make VENV=/tmp/venv test` another folder.

USABLE := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(USABLE)' 2>/dev/null && echo $$p && exit; done; echo false)
VENV ?= .venv
RUN := $(VENV)/bin/python
PYTEST := $(RUN) -m pytest
# One process a core; whoever is idle takes tests from the others. `make WORKERS=0 test` runs in one.
WORKERS ?= auto
PARALLEL := -n $(WORKERS) --maxprocesses 8 --dist worksteal
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check
TYPED := pagedviz/engine pagedviz/model pagedviz/trace pagedviz/views pagedviz/faults

export OPENBLAS_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help app test test-browser test-package soak check bench bench-load bench-ui shots clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 16

app: $(VENV)/.app  ## start the app and print its address
	@$(RUN) -m pagedviz app

test: $(VENV)/.dev  ## all tests but browser, package and long random ones; two to three minutes
	$(PYTEST) $(PARALLEL) -m "not browser and not package and not soak"

test-browser: $(VENV)/.dev  ## the app in Chromium (Debian: apt-get install chromium)
	$(PYTEST) $(PARALLEL) -m browser

test-package: $(VENV)/.dev  ## pip install into a clean environment, started from another folder
	$(PYTEST) -m package

soak: $(VENV)/.dev  ## the random tests with all their cases
	PAGEDVIZ_SOAK=1 $(PYTEST) $(PARALLEL) -m "soak or random or hypothesis"

check: $(VENV)/.dev  ## formatting, lint, types, import rules
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy $(TYPED)
	$(PYTEST) -q tests/test_layers.py

bench: $(VENV)/.dev  ## times and ratios; nothing is asserted
	$(RUN) -m benchmarks

bench-ui: $(VENV)/.dev  ## milliseconds from a key to the painted frame, in Chromium
	$(RUN) -m benchmarks ui

bench-load: $(VENV)/.dev  ## forty people on one server: joining, resting, memory
	$(RUN) -m benchmarks load

shots: $(VENV)/.dev  ## screenshots for docs/, and of every screen into build/shots/
	$(RUN) tools/shots.py
	$(RUN) tools/shots.py --all build/shots

clean:  ## remove what the other targets made, the environment included
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache

# --- the environment: rebuilt when a requirements file is newer than its stamp ------------------

$(RUN):
	@$(PYTHON) -c '$(USABLE)' || { echo "pagedviz needs Python 3.11 or newer with venv and pip \
	(Debian: apt-get install python3-venv); if it has another name: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.app: requirements.txt | $(RUN)
	@echo "installing requirements.txt into $(VENV)"
	@$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt requirements.txt | $(RUN)
	@echo "installing requirements-dev.txt into $(VENV)"
	@$(PIP) -r requirements-dev.txt
	@touch $@ $(VENV)/.app
