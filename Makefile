# Everything starts from a bare Python >= 3.11: each target first builds .venv from the lock, once.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Tests start hundreds of processes; without cached bytecode each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_BENCH := $(VENV)/.ready-bench
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
UI := src/windlass/_ui/index.html
UI_READY := ui/node_modules/.ready
UI_SOURCES := $(shell find ui/src ui/public ui/index.html ui/vite.config.ts -type f 2>/dev/null)
# One more than the number of processors, because many tests wait for other processes.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1 )))
SEEDS ?= 5000
COMPILE := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links

.PHONY: help run test prove check check-style check-types check-imports check-rules check-generated check-ui format generate ui ui-types browser screenshots bench bench-distributed bench-shortcuts failover simulate chaos lock clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-18s %s\n", $$1, $$2}'

$(READY): requirements/dev.txt pyproject.toml
	@if [ ! -x $(BIN)/python ]; then \
		found=; \
		for candidate in python3.13 python3.12 python3.11 python3 python; do \
			if $$candidate -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
				found=$$candidate; break; \
			fi; \
		done; \
		if [ -z "$$found" ]; then echo "Windlass needs Python 3.11 or newer on the PATH; none was found." >&2; exit 1; fi; \
		echo "Building $(VENV) with $$($$found --version), once..."; \
		$$found -m venv $(VENV); \
	fi
	@$(PIP) install --no-compile --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(READY_BENCH): requirements/bench.txt $(READY)
	@$(PIP) install --require-hashes -r requirements/bench.txt
	@touch $@

# The browser that the tests drive comes from the system.
$(UI_READY): ui/package-lock.json
	@command -v npm >/dev/null || { echo "The web UI is built with Node.js 20 or newer; none was found." >&2; exit 1; }
	@cd ui && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

$(UI): $(UI_READY) $(UI_SOURCES)
	@cd ui && npm run --silent build -- --logLevel error
	@touch $@

ui: $(UI) ## Build the web UI into the package

generate: $(READY) ## Write the files that are generated from declarations
	@$(BIN)/python -m tools.generate

ui-types: $(READY) $(UI_READY) ## Regenerate the types of the web UI from the OpenAPI document
	@$(BIN)/python -m tests.ui.api_types

browser: $(UI_READY)
	@ui/chromium

screenshots: $(READY) $(UI) browser ## Make pictures of every page of the web UI, in light and dark
	@cd ui && npm run --silent screenshots

run: $(READY) $(UI) ## Start a server with the examples deployed and run one of them
	@$(BIN)/windlass dev examples --run diamond $(ARGS)

test: $(READY) $(UI) browser ## Run all tests but the long ones, with a sample of those
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

prove: $(READY) $(UI) browser ## Run the long tests: faults put into the code, crashes at every step, kills, a minute of chaos
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m prove $(ARGS)

check: $(READY) $(UI_READY) ## Check format, lint, types, import contracts, project rules, generated files
	@$(MAKE) --no-print-directory -j 2 --output-sync=target check-types check-style check-rules check-imports check-generated check-ui

check-style:
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

check-types:
	@$(BIN)/basedpyright

check-imports:
	@$(BIN)/lint-imports --no-logo

check-rules:
	@$(BIN)/python -m pytest -q tests/test_tidy.py

check-generated:
	@$(BIN)/python -m tools.generate --check

check-ui:
	@cd ui && npm run --silent check

format: $(READY) $(UI_READY) ## Format the code and apply the linter's fixes
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format
	@cd ui && npm run --silent format

bench: $(READY_BENCH) ## Measure Windlass and another system
	@$(BIN)/python benchmarks/run.py $(ARGS)
	@$(BIN)/python benchmarks/http_submit.py

bench-shortcuts: $(READY) ## Measure what each optimization of the engine saves
	@$(BIN)/python -m benchmarks.shortcuts $(ARGS)

bench-distributed: $(READY_BENCH) ## Measure engine and worker processes on PostgreSQL and Redis, and other systems
	@$(BIN)/python -m benchmarks.distributed $(ARGS)

failover: $(READY) ## Measure how long work stops when an engine or a worker dies
	@$(BIN)/python -m benchmarks.failover $(ARGS)

chaos: $(READY) ## Kill, pause and flush processes and servers under load for five minutes, then audit the result
	@$(BIN)/python -m benchmarks.chaos $(ARGS)

simulate: $(READY) ## Run the simulator over many seeds (SEEDS=5000)
	@$(BIN)/python -m simulation --seeds $(SEEDS) $(ARGS)

# The lock names no index: whichever one pip is set up for must deliver exactly these hashes.
lock: $(READY) ## Resolve the dependencies again
	@$(COMPILE) $(ARGS) --extra fast --extra kubernetes --extra parquet --extra postgres --extra redis --extra s3 --group dev -o requirements/dev.txt pyproject.toml
	@$(COMPILE) $(ARGS) --group pyproject.toml:bench -c requirements/dev.txt -o requirements/bench.txt
	@echo "requirements/dev.txt and requirements/bench.txt are up to date."

clean: ## Remove what the tools left behind, and .venv
	@rm -rf $(VENV) ui/node_modules src/windlass/_ui dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
