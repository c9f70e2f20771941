# Needs Python 3.10 or newer and Node.js 20 or newer with npm; the rest is installed into .venv
# and js/node_modules. The browser tests also need Chromium; .ci/chromium looks for one.

PYTHON ?= python3
BIN := .venv/bin
ENV := .venv/.installed
NODE_MODULES := js/node_modules/.installed
FRONT_END := chopper_jupyter/static/widget.js
JS_SOURCES := $(shell find js/src -type f) $(wildcard js/*.json js/*.mjs)
NOTEBOOKS := $(wildcard example_notebooks/*.ipynb)
DEMO := 01_profile_a_training_cell
EXECUTE := jupyter nbconvert --to notebook --execute --log-level=WARN \
  --ExecutePreprocessor.record_timing=False

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lab check js notebooks clean

help:  ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(ENV)  ## profile a training cell headlessly; writes demo/
	rm -rf demo && mkdir demo && cp example_notebooks/$(DEMO).ipynb demo/
	cd demo && ../$(BIN)/$(EXECUTE) --inplace $(DEMO).ipynb
	cd demo && ../$(BIN)/jupyter nbconvert --to html --log-level=WARN $(DEMO).ipynb
	$(BIN)/jupyter trust demo/$(DEMO).ipynb
	@echo
	@echo "Executed notebook:   $(CURDIR)/demo/$(DEMO).ipynb"
	@echo "Offline HTML report: $(CURDIR)/demo/$(DEMO).html"

test: $(ENV) check  ## check, then run every test; sets up all it needs
	cd js && npm test
	.ci/chromium
	$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadfile -m "not browser"
	$(BIN)/python -m pytest tests/browser

lab: $(ENV)  ## open the example notebooks in JupyterLab
	$(BIN)/jupyter trust $(NOTEBOOKS)
	$(BIN)/jupyter lab example_notebooks

check: $(ENV)  ## lint, types and import floors, in Python and TypeScript
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd js && npm run check

js: $(FRONT_END)  ## build the front end

notebooks: $(ENV)  ## execute the example notebooks again, in place
	rm -rf build/notebooks && mkdir -p build/notebooks && cp $(NOTEBOOKS) build/notebooks/
	cd build/notebooks && CHOPPER_FULL=1 KINETO_LOG_LEVEL=6 ../../$(BIN)/$(EXECUTE) --inplace *.ipynb
	cp build/notebooks/*.ipynb example_notebooks/

clean:  ## remove all that make and the tools made
	rm -rf .venv js/node_modules chopper_jupyter/static build dist demo screenshots chopper_runs
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(ENV): pyproject.toml .ci/constraints.txt | $(FRONT_END)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and \
	  "Python 3.10 or newer is needed; name one with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c .ci/constraints.txt -e '.[collect,dev,fast]'
	@touch $@

$(FRONT_END): $(NODE_MODULES) $(JS_SOURCES)
	cd js && npm run build
	@touch $@

$(NODE_MODULES): js/package.json js/package-lock.json
	@node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' && command -v npm >/dev/null || \
	  { echo "Node.js 20 or newer with npm is needed to build the front end; install it."; exit 1; }
	cd js && npm ci --no-audit --no-fund
	@touch $@
