# Two commands do everything on a fresh machine with Python ≥ 3.11 and make: `make serve` and `make test`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

# The tests start hundreds of processes. Without bytecode each one would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help serve demo test lint fast coverage kill attack test-pooler test-long bench bench-recall bench-prompts bench-summaries \
        bench-ledger bench-erase \
        bench-speed bench-context bench-server bench-lexical bench-archive bench-topics bench-limits \
        bench-versions bench-truncation bench-order bench-shapes bench-arabic docs clean

help:
	@echo "make serve      start the server on this machine and print what to try (ARGS go to recollect serve)"
	@echo "make demo       show what it does: import a small conversation that ships with the project"
	@echo "make test       lint, types, tests on SQLite and PostgreSQL, 200 kills (about 10 minutes)"
	@echo "make fast       the quick tests alone (about 3 minutes)"
	@echo "make coverage   all tests but the kills, and which lines they reach (about 6 minutes)"
	@echo "make attack     attack it in every way we know, with full counts (at most 5 minutes)"
	@echo "make test-pooler  all tests of the store behind pgbouncer in transaction mode (about 3 minutes)"
	@echo "make test-long  full counts: 1,000 kills, thousands of property examples, a 200 MB import"
	@echo "make bench      what the log costs, beside a bare SQLite commit on the same disk"
	@echo "make bench-recall   how well recall finds, beside simpler ways (needs the data: DATA=folder)"
	@echo "make bench-order    fit the order of hits, and measure it on sets that it was not fitted on (needs the data)"
	@echo "make bench-shapes   what recall finds when the same talks come with other roles and names (needs the data; long)"
	@echo "make bench-arabic   translations, recall and topics in Arabic"
	@echo "make bench-prompts  what prompts cost and keep at each budget, and what the brief keeps alone (needs the data)"
	@echo "make bench-truncation  what prompts lose for lack of room, with passages and without (needs the data)"
	@echo "make bench-summaries  the built-in summariser beside four others (needs the data)"
	@echo "make bench-ledger   what the rules of the ledger find, on labelled utterances"
	@echo "make bench-archive  what packed messages take, against gzip and plain zstd (needs the data)"
	@echo "make bench-topics   how well messages are grouped into topics, beside simpler ways (needs the data)"
	@echo "make bench-speed    what recall and indexing cost, beside their bare parts (minutes)"
	@echo "make bench-context  prompts a second, beside what the embedder alone does (minutes)"
	@echo "make bench-server   what the server bears: prompts, messages, open streams (minutes)"
	@echo "make bench-limits   what a megabyte of hostile text costs, beside one pass over it"
	@echo "make bench-versions  what add, recall and context cost, beside an older commit (BASE=commit; minutes)"
	@echo "make bench-lexical  three ways to keep the words of messages (minutes)"
	@echo "make docs       write the generated pages anew and build the documentation into build/docs"
	@echo "make clean      remove the environment and everything built"

# The environment is made once and again only when the requirements change.
$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Recollect needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@echo "Setting up $(VENV) with $$($(PYTHON) --version) …"
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { echo "This Python has no venv; installing python3-venv …"; \
	    apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Some tests run behind a pooler. Where pgbouncer cannot be had, this says so, and they are skipped.
$(VENV)/pooler: $(VENV)/ready tools/fetch_pgbouncer.py
	@$(BIN)/python tools/fetch_pgbouncer.py $(VENV)/pgbouncer && touch $@ || true

serve: $(VENV)/ready
	@mkdir -p build
	@export RECOLLECT_DB="$${RECOLLECT_DB:-build/recollect.db}"; exec $(BIN)/recollect serve $(ARGS)

demo: $(VENV)/ready
	@mkdir -p build
	@$(BIN)/recollect demo --db build/demo.db

# Everything runs together: tests that wait for disks and processes leave room for those that compute.
test: lint $(VENV)/pooler
	@echo "Running the tests on SQLite and on a PostgreSQL started for them; killing processes, filling disks, cutting the power …"
	@$(PYTEST) -n 4 --dist worksteal

coverage: $(VENV)/pooler
	@echo "Running all tests but the kills, and noting which lines they reach …"
	@$(PYTEST) -m "not kill" -n 4 --dist worksteal --cov --cov-report=term:skip-covered

lint: $(VENV)/ready
	@echo "Checking format, lint and types …"
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy --no-error-summary

fast: $(VENV)/pooler
	@echo "Running the quick tests on SQLite and on a PostgreSQL started for them …"
	@$(PYTEST) -m "not kill and not slow" -n 4 --dist worksteal

kill: $(VENV)/ready
	@echo "Killing processes at random points, filling disks, cutting the power …"
	@$(PYTEST) -m kill -n 3 --dist worksteal

# A short version of each attack is part of `make test`.
attack: $(VENV)/ready
	@echo "Attacking prompts, patterns, people's borders, the server's edge, backups and erased text …"
	@$(PYTEST) tests/attacks --long -n 2 --dist worksteal

# Part of them run in `make test` too: POOLED_MODULES in tests/conftest.py.
test-pooler: $(VENV)/pooler
	@echo "Running the tests of the store behind pgbouncer, 20 clients and more on two server connections …"
	@$(PYTEST) --pooler -m "not kill" -n 4 --dist worksteal

test-long: $(VENV)/pooler
	@$(PYTEST) --long -n 2 --dist worksteal

bench: $(VENV)/ready
	@$(BIN)/python -m bench.log

# The data lie outside the repository; ARGS go to the bench, as in `make bench-speed ARGS=--small`.
DATA ?= ../shared/bench

bench-recall: $(VENV)/ready
	@$(BIN)/python -m bench.recall --data $(DATA) $(if $(wildcard docs/evidence.json),--baseline docs/evidence.json) $(ARGS)

# `make bench-order ARGS=--write` writes the weights that it finds into the package.
bench-order: $(VENV)/peers
	@$(BIN)/python -m bench.order --data $(DATA) $(ARGS)

bench-shapes: $(VENV)/ready
	@$(BIN)/python -m bench.shapes --data $(DATA) $(ARGS)

# The sentence pairs lie beside the other data.
bench-arabic: $(VENV)/peers
	@$(BIN)/python -m bench.arabic --data $(DATA)/../arabic $(ARGS)

bench-archive: $(VENV)/ready
	@$(BIN)/python -m bench.archive --data $(DATA) $(ARGS)

bench-topics: $(VENV)/ready
	@$(BIN)/python -m bench.topics --data $(DATA) $(ARGS)

# The other summarisers are installed for these benches alone.
$(VENV)/peers: $(VENV)/ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

bench-prompts: $(VENV)/peers
	@$(BIN)/python -m bench.prompts --data $(DATA) $(ARGS)

bench-truncation: $(VENV)/ready
	@$(BIN)/python -m bench.truncation --data $(DATA) $(ARGS)

bench-summaries: $(VENV)/peers
	@$(BIN)/python -m bench.summaries --data $(DATA) $(ARGS)

bench-ledger: $(VENV)/ready
	@$(BIN)/python -m bench.ledger $(ARGS)

bench-speed: $(VENV)/ready
	@$(BIN)/python -m bench.speed --data $(DATA) $(ARGS)

bench-context: $(VENV)/ready
	@$(BIN)/python -m bench.context --data $(DATA) $(ARGS)

bench-server: $(VENV)/ready
	@$(BIN)/python -m bench.server --data $(DATA) $(ARGS)

bench-erase: $(VENV)/ready
	@$(BIN)/python -m bench.erase $(ARGS)

bench-limits: $(VENV)/ready
	@$(BIN)/python -m bench.limits $(ARGS)

BASE ?= HEAD~1

bench-versions: $(VENV)/ready
	@$(BIN)/python -m bench.versions --base $(BASE) $(ARGS)

bench-lexical: $(VENV)/ready
	@$(BIN)/python -m bench.lexical --data $(DATA) $(ARGS)

# Sphinx is installed for this alone; what the tests check of the docs needs none.
$(VENV)/docs: $(VENV)/ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(VENV)/docs
	@$(BIN)/python docs/generate_cli.py
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	@echo "The documentation is in build/docs/index.html"

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
