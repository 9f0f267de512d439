# Everything sets itself up: `make demo` and `make test` need Python 3.11+, make and the package registries.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= $(shell sh scripts/find-python.sh)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
LOCAL := $(VENV)/.local-model
# Images for containers set this often: every `assay` would compile all its modules again, at twice the CPU time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup model demo test quick newest gate bench fuzz campaign lint docs clean

help: ## what can be made
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(STAMP): requirements.lock pyproject.toml scripts/bootstrap.sh
	@PYTHON="$(PYTHON)" sh scripts/bootstrap.sh $(VENV)
	@touch $@

$(LOCAL): $(STAMP) requirements-local.txt scripts/local-model.sh
	@if sh scripts/local-model.sh $(VENV); then touch $@; fi

setup: $(STAMP) ## the virtual environment and the sandbox's tool layer
	@$(BIN)/assay setup

model: setup $(LOCAL) ## PyTorch and what else training and rows with token ids need

demo: setup ## the main job, end to end, offline after set-up
	@$(BIN)/assay demo

test: setup lint $(LOCAL) ## what CI runs: all tests but the long ones, of which a sample by commit (all: make campaign)
	@sh scripts/system-packages.sh
	@sh scripts/harnesses-for-tests.sh $(BIN)
	@sh scripts/packages-for-tests.sh $(BIN)
	@ASSAY_HARBOR_PYTHON="$$(sh scripts/harbor-for-tests.sh $(VENV))" $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations=50 --durations-min=3 \
		--sample="$$(git rev-parse --short HEAD 2>/dev/null || echo 0)"

quick: setup ## the quick tests: under a minute on two cores
	@$(BIN)/python -m pytest -m "quick and not long" --hypothesis-profile=quick -q -n 3 --dist loadfile --no-loadscope-reorder

newest: ## the built wheel in an empty environment, and the quick tests on it, with the newest Python here
	@sh scripts/newest-python.sh $(VENV)-newest

lint: $(STAMP) ## style, types, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

gate: setup ## fail where a fixed piece of work costs over a tenth more than its bound (benchmarks/gate.json)
	@sh scripts/system-packages.sh
	@$(BIN)/python -m benchmarks.gate

bench: setup ## measure; writes benchmarks/results/local/*.json
	@$(BIN)/python -m benchmarks

FUZZ_S ?= 60
fuzz: setup ## fuzz what the gateway reads of strangers, FUZZ_S seconds a target
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet 'atheris>=3.0'
	@for target in anthropic-messages openai-responses gemini openai-chat chat-stream message-stream; do \
		$(BIN)/python -m tests.fuzz.gateway $$target -max_total_time=$(FUZZ_S) || exit 1; done

RESULTS := tests/adversary/results
SEED ?= 0
COUNT ?= 2000
DEMO_TASKS ?= .assay/demo-tasks-0-24
SETS ?= $(DEMO_TASKS)
campaign: setup ## attack the verifiers whole, then try honest attempts, other right solutions and holed verifiers (SETS: folders of made tasks)
	@sh scripts/campaign.sh "$(BIN)/python" "$(SEED)" "$(COUNT)" $(SETS)

docs: $(STAMP) ## write the generated pages of docs/reference, and llms.txt
	@$(BIN)/python scripts/make_reference.py

clean: ## remove what make made here
	rm -rf $(VENV) $(VENV)-newest .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
