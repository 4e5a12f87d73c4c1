# The index of commands; `make help` lists them. GNU make 3.81 and later.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# Where the stack listens and keeps its data; `make up PORT=9000` or from the environment.
PORT ?= 8787
KNOWLEDGE_HOME ?= $(CURDIR)/.knowledge
export PORT KNOWLEDGE_HOME

# The Python that makes the environments: PYTHON=... if given, else the one that made .venv, else the first that is new enough.
CANDIDATES := $(or $(PYTHON),.venv/bin/python python3 python3.13 python3.12 python3.11 python)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
find_python = for python in $(CANDIDATES); do "$$python" -c '$(NEW_ENOUGH)' 2>/dev/null && break; python=; done; \
	[ -n "$$python" ] || { echo "Python 3.11 or newer is needed, and none of these is: $(CANDIDATES). Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
environment = @$(find_python); "$$python" tools/environment.py

SAM := env -u AWS_PROFILE -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY -u AWS_SESSION_TOKEN SAM_CLI_TELEMETRY=0 .venv-sam/bin/sam

# ---------------------------------------------------------------------------------------------------------- running

.PHONY: up
up: .run  ## start the store with the example company and stay until Ctrl-C (PORT, KNOWLEDGE_HOME)
	@exec .venv/bin/knowledge up

.PHONY: demo
demo: .run  ## start, load, ask one query, show the answer, stop
	@exec .venv/bin/knowledge demo

# ------------------------------------------------------------------------------------------------------ development

.PHONY: test
test: .dev  ## run the tests (ARGS="tests/unit -k tags" for some of them)
	@exec .venv/bin/python -m pytest $(ARGS)

.PHONY: test-crash
test-crash: .dev  ## storms of writers and killed servers, some minutes
	@exec .venv/bin/python -m pytest tests/crash -s $(ARGS)

# Folders with collections; from the command line or the environment. The example company's is always among them.
COLLECTIONS ?=
.PHONY: eval
eval: .dev  ## measure retrieval (COLLECTIONS="folder ..." besides the example company), compare with the last run
	@exec .venv/bin/python -m eval.run examples/company $(COLLECTIONS)

# Folders with people.ldif; the example company is always among them.
DIRECTORIES ?=
.PHONY: eval-mail
eval-mail: .dev  ## measure what the rules make of mails (DIRECTORIES="folder ..." besides the company's)
	@exec .venv/bin/python -m eval.mail $(foreach folder,$(DIRECTORIES),--directory $(folder)) $(ARGS)

.PHONY: bench
bench: .dev .bench  ## compare filtered retrieval with peers, half an hour (ARGS="--rows 20000 --queries 30" for less)
	@exec .venv/bin/python -m bench.retrieval $(ARGS)

.PHONY: bench-growth
bench-growth: .dev  ## query time at 10,000, 100,000 and 1,000,000 documents, hours (ARGS="--sizes 10000 100000")
	@exec .venv/bin/python -m bench.growth $(ARGS)

.PHONY: check
check: .dev validate  ## check format, lint, types, import rules and the template
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/pyright
	.venv/bin/lint-imports
	.venv/bin/python tools/openapi.py --check

.PHONY: format
format: .dev  ## format the code and mend what ruff can mend
	.venv/bin/ruff check --fix --exit-zero
	.venv/bin/ruff format

COMPILE := .venv/bin/uv pip compile --quiet --no-config --universal --fork-strategy fewest --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

.PHONY: openapi
openapi: .dev  ## write docs/reference/openapi.json anew from the functions
	.venv/bin/python tools/openapi.py

.PHONY: lock
lock: .dev  ## write the locks anew after a change of what is declared (UPGRADE=1 for newer releases)
	$(COMPILE) --python-version 3.11 pyproject.toml --group workspace --excludes locks/left-out.txt --output-file locks/run.txt
	$(COMPILE) --python-version 3.11 pyproject.toml --group workspace --group dev --excludes locks/left-out.txt --constraints locks/run.txt --output-file locks/dev.txt
	$(COMPILE) --python-version 3.13 layers/requirements.in --constraints locks/run.txt --output-file locks/layer.txt
	$(COMPILE) --python-version 3.11 --group pyproject.toml:sam --output-file locks/sam.txt
	$(COMPILE) --python-version 3.11 --group pyproject.toml:scan --output-file locks/scan.txt
	$(COMPILE) --python-version 3.11 --group pyproject.toml:bench --output-file locks/bench.txt

# --------------------------------------------------------------------------------------------------------------- AWS

NESTED := infra/network.yaml infra/database.yaml

.PHONY: validate
validate: .sam .scan  ## validate, lint and scan template.yaml and its nested stacks
	$(SAM) validate --lint
	.venv-sam/bin/cfn-lint $(NESTED)
	LOG_LEVEL=ERROR .venv-scan/bin/checkov --framework cloudformation --skip-download --quiet --compact --file template.yaml $(NESTED)

.PHONY: build
build: .sam  ## build the functions and the layer into .aws-sam
	env -u MAKEFLAGS -u MAKELEVEL PYTHON="$(CURDIR)/.venv-sam/bin/python" $(SAM) build

# ------------------------------------------------------------------------------------------------------ housekeeping

.PHONY: clean
clean:  ## remove environments, builds and caches; the data in KNOWLEDGE_HOME stays
	rm -rf .venv .venv.lock .venv-sam .venv-sam.lock .venv-scan .venv-scan.lock .venv-bench .venv-bench.lock .aws-sam build dist .cache .hypothesis .pytest_cache .ruff_cache .import_linter_cache
	find . -type d -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help
help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The environments: what running needs, what tests and checks need on top, and SAM apart because of its pins.
.PHONY: .run .dev .sam .scan .bench
.run:
	$(environment) .venv locks/run.txt --workspace
.dev: .run
	$(environment) .venv locks/dev.txt
.sam:
	$(environment) .venv-sam locks/sam.txt
.scan:
	$(environment) .venv-scan locks/scan.txt
.bench:
	$(environment) .venv-bench locks/bench.txt
