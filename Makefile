# The one entry for people and for CI. Needs Python 3.11 or later and a Rust toolchain; makes the rest itself.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV    ?= .venv
BIN     := $(VENV)/bin
PY      := $(BIN)/python
# The first interpreter that is new enough; `make PYTHON=/path/to/python` overrides it.
PYTHON  ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,\
             $(if $(shell $(p) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(p))))
PROFILE ?= release
DEMO    ?=
PYTEST  ?=
BENCHES := $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard bench/*/run.py bench/*/Cargo.toml)))))
SOURCES := Cargo.toml Cargo.lock $(shell find rust -name fuzz -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print)

export VIRTUAL_ENV := $(abspath $(VENV))
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z%-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '  make bench-NAME one bench: %s\n' '$(BENCHES)'

.PHONY: demo
demo: build ## Play the seed scenario on 4 simulated workers, round robin against routed (DEMO="--json FILE")
	@$(BIN)/warmroute demo $(DEMO)

.PHONY: test
test: build ## Run every test: Rust, then Python (PYTEST="-k word" narrows the second)
	cargo test --workspace --locked
	$(BIN)/pytest $(PYTEST)

.PHONY: fuzz
fuzz: ## Fuzz what reads foreign bytes (FUZZ="body events" FUZZ_SECONDS=60 FUZZ_RUNS=); needs a nightly toolchain
	rust/fuzz/run.sh $(FUZZ)

.PHONY: check
check: build ## Formatters, linters, types, the stub of the compiled part, import rules
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(PY) -m mypy.stubtest warmroute._core
	$(BIN)/pytest --quiet tests/contract/test_imports.py

.PHONY: format
format: $(VENV)/.tools ## Format Rust and Python
	cargo fmt --all
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

.PHONY: bench
bench: $(addprefix bench-,$(BENCHES)) ## Run every bench; results are JSON files under bench/

bench-%: build $(VENV)/.bench-tools
	$(if $(wildcard bench/$*/run.py),$(PY) -m bench.$*.run,cargo run --release --locked --manifest-path bench/$*/Cargo.toml)

.PHONY: bench-peers
bench-peers: ## Install the routers that the proxy bench compares with, outside the checkout (0.4 GB)
	PYTHON=$(PYTHON) bench/peers.sh

.PHONY: docs
docs: build ## Write the generated pages of docs/: configuration, metrics, tokenizers
	$(PY) -m warmroute.config.page > docs/configuration.md
	$(PY) -m warmroute.metrics.page > docs/metrics.md
	$(PY) -m bench.exact.page > docs/tokenizers.md

.PHONY: proto
proto: $(VENV)/.tools ## Write the code that is generated from proto/: Python, Rust, and Go where Go is there
	$(PY) -m grpc_tools.protoc -I proto --python_out=python --pyi_out=python --grpc_python_out=python proto/warmroute/v1/*.proto
	UPDATE_PROTO=1 cargo test --locked -p warmroute-proto --test generated
	$(if $(shell command -v go),PYTHON=$(abspath $(PY)) examples/go/generate.sh examples/go,@echo "no go on the path: examples/go is left as it is")

.PHONY: build
build: $(VENV)/.built ## Build the compiled part and install the package, editable, into .venv

.PHONY: wheel
wheel: $(VENV)/.tools ## Build a wheel into dist/
	$(BIN)/maturin build --release --locked --out dist

.PHONY: clean
clean: ## Remove what make made, except Cargo's target folder
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The folder may be a link, which `venv` does not follow.
$(VENV)/.tools: pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or later on the path; set PYTHON=" >&2; exit 2; }
	@command -v cargo >/dev/null || { echo "make: no cargo on the path; install a Rust toolchain" >&2; exit 2; }
	test -x $(PY) || $(PYTHON) -m venv "$$($(PYTHON) -c 'import os, sys; print(os.path.realpath(sys.argv[1]))' $(VENV))"
	$(PY) -m pip install --quiet --upgrade 'pip>=25.1'
	$(PY) -m pip install --quiet --group dev
	@touch $@

$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	$(BIN)/maturin develop --quiet --locked --profile $(PROFILE)
	@touch $@

$(VENV)/.bench-tools: $(VENV)/.tools
	$(PY) -m pip install --quiet --group bench
	@touch $@
