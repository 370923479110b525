# What can be done with this repository. `make` alone prints the list; each target says after `##` what it is for.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed-runtime
STAMP := $(VENV)/.installed-dev
TREE := build/tree
PYTEST_ARGS ?=
JOBS ?= 2
# The lowest versions of aiohttp: of those that may be installed, and of those whose inner parts the client uses.
AIOHTTP_LOWEST := 3.13.3
AIOHTTP_TESTED := 3.14.1

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo fmt lint types layers shape test aiohttp e2e e2e-kind bench soak wheel chart constraints check clean tree

# Most of the time tests wait: two at a time take little more than half of it. A cluster of yours (KUBECONFIG) has one at a time.
PARALLEL = --numprocesses $(JOBS) --dist worksteal

help: ## Print this list
	@echo "Usage: make TARGET [PYTHON=python3.12] [JOBS=2] [PYTEST_ARGS='-k name']"
	@echo
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  %-11s %s\n", $$1, $$2 }'

setup: $(STAMP) ## Make .venv and install the package with its development tools into it (nothing to do when up to date)

# The environment is made again whenever the metadata that it was made from changes. Running needs less than developing:
# the demo does not wait for linters. (pip compiles what nobody imports; Python compiles the rest when it is first used.)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-compile

$(RUNTIME): setup.cfg pyproject.toml _version.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "make: Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) -V 2>/dev/null || echo not there)." >&2; \
	  echo "      Say which one to use, for example: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) -V)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) --editable .
	@touch $@

$(STAMP): $(RUNTIME)
	@echo "Adding what developing needs to $(VENV)" >&2
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

demo: $(RUNTIME) ## Run examples/01-minimal against the embedded API server and show what happens, step by step
	@$(BIN)/python examples/demo.py

fmt: $(STAMP) ## Format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## Check style and format (ruff, all rules; the exceptions stand in ruff.toml with their reasons)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The repository's root is the package, so tools that want to see a folder `ctl` get one made of links.
tree:
	@rm -rf $(TREE) && mkdir -p $(TREE)/ctl
	@for path in *.py py.typed */__init__.py; do \
	  path=$${path%/__init__.py}; ln -s "$(CURDIR)/$$path" $(TREE)/ctl/; done
	@for path in tests e2e; do ln -s "$(CURDIR)/$$path" $(TREE)/; done

types: $(STAMP) tree ## Check the types of package and tests (mypy --strict)
	MYPYPATH=$(TREE) $(BIN)/mypy --config-file setup.cfg -p ctl
	MYPYPATH=$(TREE) $(BIN)/mypy --config-file setup.cfg --explicit-package-bases $(TREE)/tests
	MYPYPATH=$(TREE):$(TREE)/e2e $(BIN)/mypy --config-file setup.cfg --explicit-package-bases $(TREE)/e2e

layers: $(STAMP) tree ## Check that imports go down only, pure modules stay pure, HTTP stays behind its fence
	PYTHONPATH=$(TREE) $(BIN)/lint-imports --config setup.cfg --no-cache

shape: $(STAMP) ## Check sizes, exports, docstrings and that the wheel holds the whole tree
	$(BIN)/pytest tests/architecture $(PYTEST_ARGS)

test: $(STAMP) ## Run the suite that needs nothing but Python (against the embedded API server, over real sockets)
	$(BIN)/pytest tests $(PARALLEL) $(PYTEST_ARGS)

# The lowest version is outside of the tested range: it is used by its sessions, and bounds less of what it decompresses.
aiohttp: $(STAMP) ## Run the client's tests with the lowest versions of aiohttp (from PyPI, into build/), and without its inner parts
	@for version in $(AIOHTTP_LOWEST) $(AIOHTTP_TESTED); do \
	  test -d build/aiohttp-$$version || $(PIP_INSTALL) --no-deps --target build/aiohttp-$$version aiohttp==$$version; done
	PYTHONPATH=build/aiohttp-$(AIOHTTP_LOWEST) $(BIN)/pytest tests/client --ignore=tests/client/test_bounds.py $(PYTEST_ARGS)
	PYTHONPATH=build/aiohttp-$(AIOHTTP_TESTED) $(BIN)/pytest tests/client $(PYTEST_ARGS)
	AIOHTTP_SESSIONS=1 $(BIN)/pytest tests/client $(PYTEST_ARGS)

e2e: $(STAMP) ## Run the conformance suite and whole operators against a real kube-apiserver (or KUBECONFIG=... make e2e)
	@test -n "$$KUBECONFIG" || $(BIN)/python e2e/controlplane/build.py
	@cd e2e && ../$(BIN)/python -m charts.build || echo "make: the tests of the chart will be skipped" >&2
	$(BIN)/python e2e/operators/kopfenv.py
	@cd e2e && ../$(BIN)/python -m published.environment
	$(BIN)/pytest e2e $(if $(KUBECONFIG),,$(PARALLEL)) $(PYTEST_ARGS)

e2e-kind: $(STAMP) ## Build the image, install the chart in a cluster of kind, and run the operators' tests there (needs a Docker engine)
	@.ci/kind $(PYTEST_ARGS)

bench: $(STAMP) ## Measure the hot paths and print the figures
	$(BIN)/pytest tests/bench -s --override-ini=python_files='bench_*.py' --timeout=600 $(PYTEST_ARGS) || test $$? = 5

soak: $(STAMP) ## Run what takes long: every operator under Kopf and ctl on both servers, ten thousand worlds of leases, five thousand random lives of objects
	$(BIN)/python e2e/operators/kopfenv.py
	PARITY_EVERYWHERE=1 $(BIN)/pytest e2e/parity --timeout=3600 $(PYTEST_ARGS)
	SOAK_SEEDS=10000 SOAK_ROUNDS=50 $(BIN)/pytest tests/controller/leader/test_lease_rules.py tests/controller/leader/test_partitions.py tests/handlers/test_convergence.py tests/handlers/test_cycle_model.py \
	  tests/controller/test_client.py tests/controller/test_serve.py tests/handlers/test_interruptions.py tests/handlers/test_promises.py \
	  tests/handlers/test_places.py tests/handlers/test_restarts.py tests/handlers/test_scale.py \
	  --timeout=3600 $(PYTEST_ARGS)
	SOAK_LOSSES=100 $(BIN)/pytest tests/handlers/test_leadership.py --timeout=3600 $(PYTEST_ARGS)
	SOAK_WEATHER=1 $(BIN)/pytest tests/handlers/test_weather.py --timeout=3600 $(PYTEST_ARGS)
	SOAK_KILLS=20 $(BIN)/pytest e2e/operators/test_replicas.py -s $(PYTEST_ARGS)
	SOAK_CRASHES=200 $(BIN)/pytest e2e/operators/test_crashes.py -s $(PYTEST_ARGS)

wheel: $(STAMP) ## Build the wheel and the source archive into dist/
	$(BIN)/python -m build --outdir dist .

chart: $(STAMP) ## Check the Helm chart with helm and kubeconform (built from Go modules the first time) and put it into dist/
	@test -n "$$KUBECONFIG" || $(BIN)/python e2e/controlplane/build.py
	@cd e2e && ../$(BIN)/python -m charts.build
	$(BIN)/pytest e2e/charts $(PYTEST_ARGS)
	@"$$(cd e2e && ../$(BIN)/python -m charts.build)/helm" package charts/ctl-operator --destination dist

constraints: $(STAMP) ## Write constraints.txt and the locks with hashes, by which the image is built, as .venv has the versions
	@$(BIN)/python .ci/constraints.py

check: lint types layers shape ## Everything that needs no run of the suite: lint, types, layers, shape

clean: ## Remove everything that was built, the environment included
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
