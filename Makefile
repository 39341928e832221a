# `make demo` shows the method at work, `make test` checks it. Both set everything up first.

PYTHON ?= python3
BIN := .venv/bin
export JAX_PLATFORMS ?= cpu

.PHONY: demo demo-cartpole docs notebooks test test-all test-pythons newcomer fuzz kills lint format types bench setup setup-dev clean

demo: setup  ## HyperCRL beside fine-tuning on three pusher tasks, ending in a report page
	$(BIN)/hypercrl sweep --suite pusher --method hypercrl finetune --seeds 1 --tasks 3 --videos --out runs/demo

demo-cartpole: setup  ## retention and forward transfer on cart-pole, two seeds
	$(BIN)/hypercrl sweep --suite cartpole --method hypercrl finetune single --seeds 2 --tasks 3 --out runs/demo-cartpole

table-%: setup  ## table-pusher, table-slide, table-cartpole: all methods, five tasks, five seeds
	$(BIN)/hypercrl sweep --file results/tables/$*.yaml --out runs/tables/$*

test: setup-dev lint types  ## everything but the learning tests that take minutes
	$(BIN)/pytest -m "not slow" -n 2 --dist worksteal

test-all: setup-dev lint types  ## those too, and everything compiled as for a user
	JAX_DISABLE_MOST_OPTIMIZATIONS=0 $(BIN)/pytest -n 2 --dist worksteal

test-pythons:  ## the fast tests under Python 3.11 to 3.13, or those that PYTHONS names
	tools/test_pythons.sh $(PYTHONS)

newcomer: setup-dev  ## from the wheel alone, in a fresh environment, what a new user would do
	$(BIN)/python tools/newcomer.py

docs: .venv/.docs  ## the site, built strictly into build/site, and its tutorials and commands run
	$(BIN)/pytest tests/test_docs.py tests/test_guide_commands.py -m slow -n 2 --dist worksteal
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: setup-dev  ## run the tutorials again and keep what they print and draw
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[notebooks]'
	$(BIN)/python tools/notebooks.py

fuzz: setup-dev  ## whatever a person or a file may say, 20,000 times of each kind
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest tests/test_fuzz.py -n 2 --dist worksteal

kills: setup-dev  ## a run killed a hundred times, and one of a sweep on an S3 server
	S3_KILLS=100 $(BIN)/pytest tests/test_crash.py tests/test_object_store.py -m slow -k killed

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup-dev
	$(BIN)/pyright

bench: setup-dev  ## the performance claims, as ratios measured side by side
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/updates.py
	$(BIN)/python benchmarks/control_step.py

setup: .venv/.run
setup-dev: .venv/.dev

.venv/bin/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hypercrl needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv

.venv/.run: pyproject.toml constraints.txt | .venv/bin/pip
	tools/system_packages.sh
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/pip
	tools/system_packages.sh tests
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,ray]'
	touch $@

.venv/.docs: .venv/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

clean:
	rm -rf .venv runs build dist .pytest_cache .ruff_cache
