# Each target makes its own .venv and installs what it needs into it; nothing else has to be set up.
# Everything runs against the installed wheel, never against the source folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SOURCES := pyproject.toml README.md $(shell find src -name '*.py' -o -name 'py.typed')

.PHONY: wheel demo test test-all mutants lint docs bench clean

demo: $(VENV)/.views
	$(BIN)/tallytree demo

# dist/tallytree-*.whl, with the kernels compiled
wheel: $(VENV)/.wheel

# A file is run by one process, so that its kernels are compiled and its fixtures made once. Files in order of their names:
# xdist would begin with those that have most tests, and end with those that take longest.
# One process more than there are cores: a quarter of the time, tests wait for servers and programs that they have started.
PYTEST := TALLYTREE_TEST_INSTALLED=1 $(BIN)/python -m pytest -n $$(($$(nproc) + 2)) --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.dev
	$(PYTEST)

# Faults planted in a copy of the sources, each with the check that must catch it. ONLY="word …" chooses by name.
mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants/run.py $(ONLY)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation site, in build/docs; a warning is an error
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/docs

bench: $(VENV)/.dev
	-$(PIP) install -r benchmarks/requirements.txt
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/real_data.py
	$(BIN)/python benchmarks/real_data_page.py

clean:
	rm -rf $(VENV) dist build src/tallytree/compute/compiled

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

# The wheel is rebuilt when a source changes, its dependencies are resolved again only when they change.
# It carries the kernels compiled for this Python and numba; they are compiled again when a source of theirs changes.
$(VENV)/.wheel: $(VENV)/.created $(SOURCES)
	$(PIP) install .
	PYTHONPATH=src $(BIN)/python -m tallytree.cli.compiling_ahead
	rm -rf dist
	$(PIP) wheel --no-deps --wheel-dir dist .
	$(PIP) install --no-deps --force-reinstall dist/*.whl
	touch $@

# What the README shows beside the release itself: the report, the explorer, exports, maps.
$(VENV)/.views: $(VENV)/.wheel
	$(PIP) install "$$(ls dist/*.whl)[report,explore,export,maps]"
	touch $@

$(VENV)/.dev: $(VENV)/.wheel
	$(PIP) install "$$(ls dist/*.whl)[dev]"
	touch $@
