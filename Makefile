# Each target makes its own .venv and installs what it needs into it; nothing else has to be set up.
# Everything runs against the installed wheel, never against the source folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SOURCES := pyproject.toml README.md $(shell find src -name '*.py' -o -name 'py.typed')

# Compiled modules are kept, whatever the environment says: without them, each process that starts compiles 2,000 anew.
unexport PYTHONDONTWRITEBYTECODE

# The lock files hold versions and hashes for these Pythons; for any other, pip resolves what pyproject.toml allows.
LOCKED := $(filter 3.11 3.12,$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))

.PHONY: wheel demo test test-all mutants faults replay lint docs bench lock clean

# Installs what the demo shows and no more. Its code is compiled when it runs, which takes half a minute the first time;
# where the wheel is installed, with all code compiled, the demo takes it.
demo: $(if $(wildcard $(VENV)/.wheel),$(VENV)/.wheel,$(VENV)/.demo)
	$(BIN)/tallytree demo

# dist/tallytree-*.whl, with the kernels compiled
wheel: $(VENV)/.wheel

# A file is run by one process, so that its kernels are compiled and its fixtures made once. Files begin in the order of
# tests/helpers/order.py: xdist would begin with those that have most tests, and end with those that take longest.
# Of all tests, a quarter of the time is spent waiting for servers, programs and disks: two processes more than there are
# cores. Those of `make test` wait less (tests/conftest.py keeps their files in memory), and each process reads all tests.
PYTEST := TALLYTREE_TEST_INSTALLED=1 $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev
	$(PYTEST) -n $$(($$(nproc) + 1)) -m "not slow"

test-all: $(VENV)/.dev
	$(PYTEST) -n $$(($$(nproc) + 2))

# Faults planted in a copy of the sources, each with the check that must catch it. ONLY="word …" chooses by name.
# Checks run the copy, which is compiled as they need it: so this does not wait for a wheel with all code compiled.
mutants: $(VENV)/.tools
	$(BIN)/python tests/mutants/run.py $(ONLY)

# Every fault where `make test-all` tries a sample; prints how many there were (docs/how-to/runs.md).
faults: $(VENV)/.dev
	TALLYTREE_FAULTS=all TALLYTREE_TEST_INSTALLED=1 $(BIN)/python -m pytest -s tests/faults

# Pairs of releases with equal noisy answers: 200, where `make test-all` compares 80 (docs/explanation/audit.md).
replay: $(VENV)/.dev
	TALLYTREE_PAIRS=200 TALLYTREE_TEST_INSTALLED=1 $(BIN)/python -m pytest tests/lab/replay -k many_pairs

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python requirements/audit.py requirements/dev.lock

# The documentation site, in build/docs; a warning is an error
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/docs

bench: $(VENV)/.dev
	-$(PIP) install -r benchmarks/requirements.txt
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/real_data.py
	$(BIN)/python benchmarks/real_data_page.py

clean:
	rm -rf $(VENV) dist build src/tallytree/support/compiled

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

# What the package needs, and the report. Python compiles a module when it is first imported, so only what is used.
$(VENV)/.needed: $(VENV)/.created pyproject.toml requirements/demo.lock
	@echo "Installing what tallytree and its report need into $(VENV) ..."
	$(if $(LOCKED),$(PIP) install --no-compile --require-hashes -r requirements/demo.lock,\
	$(PIP) install hatchling ".[report]")
	touch $@

$(VENV)/.demo: $(VENV)/.needed $(SOURCES)
	$(PIP) install --no-deps --no-build-isolation .
	touch $@

# The wheel is rebuilt when a source changes, beside the environment, which others may be using; then it takes its place.
# It carries the kernels compiled for this Python and numba; they are compiled again when a source of theirs changes.
BESIDE := $(VENV)/beside
$(VENV)/.wheel: $(VENV)/.needed $(SOURCES)
	rm -rf $(BESIDE) dist
	$(PIP) install --no-deps --no-build-isolation --no-compile --target $(BESIDE) .
	@echo "Compiling all code for the wheel ..."
	PYTHONPATH=src:$(BESIDE) $(BIN)/python -m tallytree.cli.compiling_ahead
	rm -rf $(BESIDE)
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	$(PIP) install --no-deps --target $(BESIDE) dist/*.whl
	$(BIN)/python requirements/swap.py $(BESIDE)
	touch $@

$(VENV)/.dev: $(VENV)/.wheel $(VENV)/.tools
	touch $@

# What tests need beside the package. Some version of it is installed too, of which checks of faults use the name alone.
$(VENV)/.tools: $(VENV)/.needed requirements/dev.lock
	$(if $(LOCKED),$(PIP) install --require-hashes -r requirements/dev.lock,\
	$(PIP) install "$$(ls dist/*.whl 2>/dev/null || echo .)[dev]")
	$(PIP) show --quiet tallytree || $(PIP) install --no-deps --no-build-isolation .
	touch $@

# The newest versions that pyproject.toml allows and that agree with one another, with the hashes of all their files
COMPILE = echo 'hatchling>=1.27' | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-annotate --custom-compile-command "make lock" pyproject.toml -
lock: $(VENV)/.created
	$(PIP) install uv
	$(COMPILE) --extra dev -o requirements/dev.lock
	$(COMPILE) --extra report --constraint requirements/dev.lock -o requirements/demo.lock
