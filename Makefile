# One command each; every one creates the locked environment it needs. For another Python beside the first:
# make test-fast PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Two, for two cores: with one more, compiled loops that share a core take three times as long.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-profile soak mutants lint format docs lock clean docs-experiments
.PHONY: bench bench-accuracy bench-theory bench-rounds
.PHONY: bench-store bench-peers bench-scaling bench-plan

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

demo: $(VENV)/.ready  ## five agents on a ring, two digit classes each: a table and a figure
	$(BIN)/consilience demo

test: $(VENV)/.ready  ## the tests
	$(PYTEST)

test-fast: $(VENV)/.ready  ## the tests but for the slow ones
	$(PYTEST) -m "not soak and not slow"

test-profile: $(VENV)/.ready  ## the tests, and where their time goes: by file, by phase; each in test-profile.jsonl
	$(PYTEST) -p tests.profiling

soak: $(VENV)/.ready  ## long fault tests, and the other halves of large products; compiled as for users
	XLA_FLAGS= $(BIN)/python -m pytest -m soak -s

mutants: $(VENV)/.ready  ## planted faults, one at a time: the tests must find every one (half an hour)
	$(BIN)/python -m tests.mutants --jobs 2

lint: $(VENV)/.ready  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready  ## let ruff tidy up
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready  ## speed of the samplers over their floor, of nuts over BlackJAX's, of a gossip round, of unequal shards, of a first draw
	$(BIN)/python -m benchmarks.samplers
	$(BIN)/python -m benchmarks.nuts
	$(BIN)/python -m benchmarks.gossip
	$(BIN)/python -m benchmarks.unequal
	$(BIN)/python -m benchmarks.first_draw

bench-accuracy: $(VENV)/.ready  ## bias, spread and cost of every sampler: docs/accuracy.md (long)
	$(BIN)/python -m benchmarks.accuracy

bench-theory: $(VENV)/.ready  ## the paper's theorems, measured: docs/theory.md
	$(BIN)/python -m benchmarks.theory

bench-rounds: $(VENV)/.ready  ## sums, rounds and bytes of a thousand effective draws: docs/rounds.md (hours on two cores)
	$(BIN)/python -m benchmarks.rounds

bench-store: $(VENV)/.ready  ## memory and time of keeping 10⁵ draws of 10⁴ parameters on disk (4 GB)
	$(BIN)/python -m benchmarks.store

bench-peers: $(VENV)/.ready  ## agents as processes: rounds over a bare exchange, draws and bytes over simulate
	$(BIN)/python -m benchmarks.peers

bench-scaling: $(VENV)/.ready  ## many agents: time and memory over their number; on a GPU, the rate over the floor
	$(BIN)/python -m benchmarks.scaling

bench-plan: $(VENV)/.ready  ## the constants of `consilience plan`, and how far off it is: docs/plan.md (as root)
	$(BIN)/python -m benchmarks.plan

docs-experiments: $(VENV)/.ready  ## docs/experiments.md and its figures, from the records in docs/experiments
	$(BIN)/python -m benchmarks.experiments

docs: $(VENV)/.ready  ## the documentation, as a site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lock: $(VENV)/.ready  ## resolve the newest versions into requirements.lock
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --group dev \
		--no-header --no-annotate --output-file requirements.lock --upgrade

clean:  ## remove the environments and what was built
	rm -rf $(VENV) .venv-* .compiled build dist .pytest_cache .ruff_cache .mypy_cache demo-output site test-profile.jsonl
