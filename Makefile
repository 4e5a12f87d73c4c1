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

.PHONY: test-sam
test-sam: .dev .sam  ## the functions in containers, under SAM; needs Docker, or root on Debian to make do without images
	@exec .venv/bin/python -m pytest tests/sam -s --timeout 1200 $(ARGS)

.PHONY: test-localstack
test-localstack: .dev .localstack  ## schedules, secrets and the dashboard in LocalStack, without Docker
	@exec .venv/bin/python -m pytest tests/localstack -s --timeout 300 $(ARGS)

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

.PHONY: fuzz-mail
fuzz-mail: .dev  ## read 100,000 mutated mails, some minutes (MAIL_FUZZ_INPUTS for more or fewer)
	@MAIL_FUZZ_INPUTS=$${MAIL_FUZZ_INPUTS:-100000} exec .venv/bin/python -m pytest tests/unit/sdk/test_email_fuzz.py --timeout 7200 $(ARGS)

.PHONY: screenshots
screenshots: .dev  ## take the console's pictures in docs/images anew, of the stack that runs in KNOWLEDGE_HOME
	@exec .venv/bin/python tools/screenshots.py --home $(KNOWLEDGE_HOME)

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
	$(COMPILE) --python-version 3.13 --group pyproject.toml:providers --excludes locks/left-out.txt --constraints locks/run.txt --output-file locks/providers.txt
	$(patsubst --universal,--python-platform linux,$(COMPILE)) --python-version 3.13 --group pyproject.toml:localstack --output-file locks/localstack.txt

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

COMPOSE := docker compose --file infra/compose.yaml
# Where `sam local` listens, and what the functions are told; see docs/guides/docker.md.
SAM_HOST ?= 127.0.0.1
SAM_ENV ?= infra/sam-local.json
SAM_LOCAL = --docker-network knowledge --env-vars $(SAM_ENV) --region eu-central-1 \
	--parameter-overrides Architecture=$(if $(filter arm64 aarch64,$(shell uname -m)),arm64,x86_64)

.PHONY: sam-up
sam-up: build .providers  ## with Docker: database and LocalStack in containers, the functions by `sam local` (PORT)
	$(COMPOSE) up --detach --wait
	$(SAM) local invoke MigrateFunction --event events/migrate.json $(SAM_LOCAL)
	$(SAM) local start-api --host $(SAM_HOST) --port $(PORT) --warm-containers LAZY $(SAM_LOCAL)

.PHONY: sam-down
sam-down:  ## stop what sam-up left running; the database's data stays in its volume
	$(COMPOSE) --profile '*' down

# ------------------------------------------------------------------------------------------------------ housekeeping

.PHONY: clean
clean:  ## remove environments, builds and caches; the data in KNOWLEDGE_HOME stays
	rm -rf .venv .venv.lock .venv-sam .venv-sam.lock .venv-scan .venv-scan.lock .venv-bench .venv-bench.lock .venv-localstack .venv-localstack.lock .aws-sam build dist .cache .hypothesis .pytest_cache .ruff_cache .import_linter_cache
	find . -type d -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help
help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The environments: what running needs, what tests and checks need on top, and SAM apart because of its pins.
.PHONY: .run .dev .sam .scan .bench .localstack .providers
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

# LocalStack wants a Python of its own, 3.12 or newer; its lock is for Linux.
LOCALSTACK_PYTHON ?= $(firstword $(wildcard .venv-localstack/bin/python $(HOME)/.pyenv/versions/3.13.*/bin/python) python3.13)
.localstack:
	@$(LOCALSTACK_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' || \
		{ echo "LocalStack needs Python 3.12 or newer: make test-localstack LOCALSTACK_PYTHON=/path/to/python3" >&2; exit 1; }
	@$(LOCALSTACK_PYTHON) tools/environment.py .venv-localstack locks/localstack.txt
.providers: .cache/provider-packages/.made
.cache/provider-packages/.made: locks/providers.txt | .sam
	rm -rf $(@D)
	.venv-sam/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		--requirement $< --target $(@D)
	touch $@
