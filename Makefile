# Each target makes the virtual environment .venv if it is missing and installs what it
# needs; nothing has to be done before. A stamp file per extra makes re-runs instant.

PYTHON ?= python3
SPHINXOPTS ?= -W --keep-going

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	-c constraints.txt
PINS := pyproject.toml constraints.txt

# benchmarks/plot_*.py only draw what the others wrote; benchmarks/_*.py are helpers.
BENCHMARKS := $(filter-out benchmarks/plot_% benchmarks/_%,$(wildcard benchmarks/*.py))

.PHONY: demo demo-quick test lint format doc bench bench-smoke clean
.NOTPARALLEL:

demo: $(VENV)/.stamp-base
	$(BIN)/python -m skvn

demo-quick: $(VENV)/.stamp-base
	$(BIN)/python -m skvn --quick

# One worker per core, one thread per worker.
test: $(VENV)/.stamp-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

lint: $(VENV)/.stamp-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

format: $(VENV)/.stamp-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One thread per process; the gallery runs two examples at a time.
doc: $(VENV)/.stamp-doc
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html $(SPHINXOPTS) doc doc/_build/html
	$(BIN)/python doc/check_links.py doc/_build/html

# With --quick a benchmark takes seconds and leaves benchmarks/results/ as it is.
ifneq ($(BENCHMARKS),)
bench-smoke: $(VENV)/.stamp-benchmarks
	set -e; for script in $(BENCHMARKS); do $(BIN)/python $$script --quick; done
else
bench-smoke:
	@echo "bench-smoke: none yet (there are no scripts in benchmarks/)"
endif

# The full runs, an hour or more per task on 2 cores; finished rows are skipped.
# MNIST=path.npz avoids a download.
bench: $(VENV)/.stamp-benchmarks
	set -e; for task in functions spatial nbody; do \
		$(BIN)/python benchmarks/$$task.py; done
	$(BIN)/python benchmarks/images.py $(if $(MNIST),--mnist $(MNIST))
	$(BIN)/python benchmarks/plot_results.py

clean:
	rm -rf $(VENV) build dist .hypothesis .pytest_cache .ruff_cache
	rm -rf doc/_build doc/auto_examples doc/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.stamp-venv:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.stamp-lint: constraints.txt | $(VENV)/.stamp-venv
	$(INSTALL) codespell ruff
	touch $@

$(VENV)/.stamp-base: $(PINS) | $(VENV)/.stamp-venv
	$(INSTALL) -e '.[plot]'
	touch $@

$(VENV)/.stamp-%: $(PINS) | $(VENV)/.stamp-venv
	$(INSTALL) -e '.[$*]'
	touch $(VENV)/.stamp-base $@
