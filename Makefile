# Every target makes what it needs: `make up` and `make test` want nothing but python3 (3.11 or newer).
# PYTHON=… chooses another interpreter for the virtual environment.

PYTHON ?= python3
SEEDS ?= 1000
SCENARIO ?= kill
SECONDS ?= 60
ARGS ?=
PYTHONS ?=
# Tests start hundreds of nodes: compiling their sources at each start would be a third of the time that it takes.
unexport PYTHONDONTWRITEBYTECODE
# No test of these takes a tenth of that, on a slow machine either: one that does waits for something that never comes.
NO_HANG := --timeout=300
# Five tests at a time, on two cores too: half of the tests wait for real nodes most of their time. Each file's
# tests run in one process: modules share the clusters that they start.
WORKERS ?= 5
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
BIN := .venv/bin
READY := .venv/.quorate-ready
BENCH_READY := .venv/.quorate-bench-ready
CONSOLE := .venv-console/bin
CONSOLE_READY := .venv-console/.quorate-ready
# PYSPARK=4.2.1 has `make test-pipeline` and its like run with that release, in an environment of its own.
PYSPARK ?=
PIPELINE_ENVIRONMENT := .venv-pipeline$(addprefix -,$(PYSPARK))
PIPELINE := $(PIPELINE_ENVIRONMENT)/bin
PIPELINE_READY := $(PIPELINE_ENVIRONMENT)/.quorate-ready
PIPELINE_BENCH_READY := $(PIPELINE_ENVIRONMENT)/.quorate-bench-ready
CLIENTS := .venv-clients/bin
CLIENTS_READY := .venv-clients/.quorate-ready
CHECKOUTS ?=
# COMPILED=1 has `make up` run what is compiled.
COMPILED ?=
COMPILED_TREE := build/compiled
COMPILED_READY := build/.quorate-compiled
SIMULATOR := build/simulator
SIMULATOR_READY := build/.quorate-simulator
# What is run so takes quorate's packages from where they were compiled, and all else from the tree.
AS_COMPILED := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/$(COMPILED_TREE):$(CURDIR)

.PHONY: help environment up test test-compiled compiled wheel test-watch test-compose test-console test-pipeline test-pipeline-brief proof-pipeline proof-archive chaos test-chaos proof clients check format types sim sim-compiled bench bench-pipeline conformance ratchet lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

environment: $(READY) ## the virtual environment alone, which each of the others makes as well

up: $(READY) $(if $(filter 1,$(COMPILED)),$(COMPILED_READY)) ## three nodes on loopback, data in ./data (COMPILED=1 runs them compiled to C; ARGS="--nodes 1 …" adds options)
	$(if $(filter 1,$(COMPILED)),$(AS_COMPILED)) $(BIN)/quorate up --data data $(ARGS)

test: $(READY) ## every test but those of `make check`, the long simulations and proofs (ARGS="-k word …" adds options; WORKERS=1 one at a time)
	$(BIN)/python -m pytest -q $(NO_HANG) $(PARALLEL) --ignore=tests/structure $(ARGS)

compiled: $(COMPILED_READY) ## quorate as it is shipped, the modules that handle messages compiled to C, in build/compiled (needs a C compiler; a minute or two)

wheel: $(READY) ## the same as wheels, in build/wheel, for each CPython 3.11 to 3.14 that is found (PYTHONS="python3.12 …" names them)
	$(BIN)/python -m scripts.wheels $(PYTHONS)

test-compiled: $(COMPILED_READY) ## the tests of `make test` on compiled code (ARGS="tests/raft …" chooses some)
	$(AS_COMPILED) $(BIN)/python -m pytest -q $(NO_HANG) $(PARALLEL) --compiled -o pythonpath=$(COMPILED_TREE) --ignore=tests/structure $(ARGS)

proof: $(READY) ## kill and freeze real nodes under load, for minutes; prints the pauses (ARGS="-k killing …" adds options)
	$(BIN)/python -m pytest -q -s -m proof tests/processes $(ARGS)

test-watch: $(READY) ## dashboards and alerts against a real Prometheus (Debian's package prometheus); needs root, for a full disk, and cc
	$(BIN)/python -m pytest -q -m watch tests/deploy $(ARGS)

test-compose: $(READY) ## deploy/compose.yml with real containers (docker, its base image or deploy/base-image.sh, Debian's prometheus; root)
	$(BIN)/python -m pytest -q -m compose tests/deploy $(ARGS)

test-console: $(CONSOLE_READY) ## the web console in a browser (Debian's packages chromium, chromium-driver; npm)
	$(CONSOLE)/python -m pytest -q -m console tests/console $(ARGS)

test-pipeline: $(PIPELINE_READY) ## the data pipeline on Spark (Java 17; PYSPARK=4.2.1 for another release than that of the lock)
	$(PIPELINE)/python -m pytest -q $(NO_HANG) -m spark tests/pipeline $(ARGS)

test-pipeline-brief: $(PIPELINE_READY) ## the few tests of it that take messages from streams and queues through Spark to the sink, in a minute
	$(PIPELINE)/python -m pytest -q $(NO_HANG) -m brief tests/pipeline $(ARGS)

proof-pipeline: $(PIPELINE_READY) ## kill parts of streaming queries, and of their cluster, hundreds of times (ARGS="--kind driver --kills 100 --seed 1"; docs/pipeline.md)
	$(PIPELINE)/python -u -m tests.pipeline.proof $(ARGS)

proof-archive: $(PIPELINE_READY) ## archive and replay ten million messages of up to 16 MiB, and compare them (ARGS="--messages 1000000 --seed 1")
	$(PIPELINE)/python -u -m tests.pipeline.proof.archived $(ARGS)

clients: $(CLIENTS_READY) ## every client, and clients' own test suites, against each of three nodes (CHECKOUTS=…: docs/clients.md)
	CHECKOUTS="$(CHECKOUTS)" $(CLIENTS)/python -m pytest -q -m "clients or not clients" tests/clients $(ARGS)

chaos: $(READY) ## one scenario of faults under load (SCENARIO=kill SECONDS=60; ARGS="--target compose …"; `docs/reliability.md`)
	$(BIN)/python -m chaos run --scenario $(SCENARIO) --seconds $(SECONDS) $(ARGS)

test-chaos: $(READY) ## a few seconds of every scenario; needs root, for networks, disks and control groups
	$(BIN)/python -m pytest -q -m "chaos or not chaos" tests/chaos $(ARGS)

check: $(READY) ## style, types, structure of the tree, the snippets of the documents, the planted bugs and most seeds of the simulators' tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q $(NO_HANG) tests/structure
	$(BIN)/python -m pytest -q $(NO_HANG) -n 2 --dist worksteal -m seeds tests/simulation tests/raft

format: $(READY) ## put the sources into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sim: $(READY) ## the deterministic simulator over SEEDS=… seeds, on all cores; members come and go in a quarter of them
	$(BIN)/python -m tests.simulation --mixed --seeds $(SEEDS) $(ARGS)

sim-compiled: $(SIMULATOR_READY) ## the same with quorate and the simulator compiled to C, for many thousand seeds; bugs cannot be planted there
	PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/$(SIMULATOR) $(BIN)/python -m tests.simulation --mixed --seeds $(SEEDS) $(ARGS)

bench: $(BENCH_READY) $(COMPILED_READY) ## measure ours, compiled, and, where installed, RabbitMQ (ARGS="--rounds 1 --rows … " adds options)
	$(AS_COMPILED) $(BIN)/python -m bench $(ARGS)

bench-pipeline: $(PIPELINE_BENCH_READY) $(COMPILED_READY) ## measure the data pipeline on Spark beside its peers and limits, the nodes compiled (ARGS="--messages 1000000 --rows sources,audits")
	$(AS_COMPILED) $(PIPELINE)/python -m bench.pipeline $(ARGS)

conformance: $(READY) ## write docs/conformance.md from the tests' requirement marks
	$(BIN)/python -m scripts.conformance

ratchet: $(READY) ## tighten tests/structure/ratchet.json and prose.json to the figures reached now
	$(BIN)/python -m tests.structure.sizes
	$(BIN)/python -m tests.structure.prose

lock: ## resolve the dependencies of pyproject.toml anew into the locked files
	PYTHON="$(PYTHON)" scripts/lock.sh

clean: ## remove everything that the targets made, data included
	rm -rf .venv .venv-clients .venv-console .venv-pipeline* .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info data
	rm -f bench/amqpload bench/amqp10load bench/natsload
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "quorate needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(COMPILED_READY): $(READY) setup.py $(shell find cluster node pipeline replication -name '*.py' -o -name '*.[ch]')
	rm -rf build/lib* build/temp* $(COMPILED_TREE) $@
	QUORATE_COMPILE=1 $(BIN)/python setup.py --quiet build --build-lib $(COMPILED_TREE)
	@touch $@

# In a copy of the tree: what is compiled in the tree would be what every test there runs.
$(SIMULATOR_READY): $(READY) setup.py $(shell find cluster node replication tests/simulation -name '*.py' -o -name '*.[ch]')
	rm -rf $(SIMULATOR)
	mkdir -p $(SIMULATOR)
	git ls-files -z cluster node replication tests setup.py pyproject.toml README.md LICENSE | xargs -0 cp --parents -t $(SIMULATOR)
	cd $(SIMULATOR) && QUORATE_COMPILE=simulator $(CURDIR)/$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

$(BENCH_READY): $(READY) requirements-bench.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.txt
	@touch $@

$(CONSOLE_READY): $(READY) requirements-console.txt
	test -x $(CONSOLE)/python || $(PYTHON) -m venv .venv-console
	$(CONSOLE)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt -r requirements-console.txt
	$(CONSOLE)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(PIPELINE_READY): $(READY) requirements-pipeline.txt
	test -x $(PIPELINE)/python || $(PYTHON) -m venv $(PIPELINE_ENVIRONMENT)
	$(PIPELINE)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt -r requirements-pipeline.txt
	$(if $(PYSPARK),$(PIPELINE)/python -m pip install --quiet --disable-pip-version-check pyspark==$(PYSPARK))
	$(PIPELINE)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(PIPELINE_BENCH_READY): $(PIPELINE_READY) requirements-bench-pipeline.txt
	$(PIPELINE)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench-pipeline.txt
	@touch $@

$(CLIENTS_READY): $(READY) requirements-clients.txt
	test -x $(CLIENTS)/python || $(PYTHON) -m venv .venv-clients
	$(CLIENTS)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt -r requirements-clients.txt
	$(CLIENTS)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
