.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench soak docs proto sim fuzz clean
PY := .venv/bin/python
WORKERS ?= $(shell tools/workers)
# Tests start hundreds of servers and commands, which should not compile their modules again.
unexport PYTHONDONTWRITEBYTECODE
# Nor should each start a thread for linear algebra, which spins for 50 ms.
export OPENBLAS_NUM_THREADS := 1

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create .venv with everything the project and its tests need (PYTHON=... chooses the interpreter)
	@tools/setup

demo: setup ## publish 336,776 real rows, kill the owner, a bookie and a broker, and show that nothing is lost
	@$(PY) -m demo

test: setup ## run the tests, on all processors (SLOW=1: those too that take long, as CI does; PYTEST_ARGS=... for pytest; what is skipped is named)
	@$(PY) -m pytest -n $(WORKERS) --dist loadfile $(if $(SLOW),,--skip-slow) $(PYTEST_ARGS)

lint: setup ## ruff, mypy --strict, import directions, generated protobuf modules
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@$(PY) tools/generate_protos.py --check

bench: setup ## run every benchmark and write docs/reference/benchmarks.md
	@$(PY) -m bench

soak: setup ## long and hostile runs, about 40 minutes; figures go to docs/reference/reliability.md (SOAK_ARGS=... for one: SOAK_ARGS=--help)
	@$(PY) -m tests.faults.soak $(SOAK_ARGS)

sim: setup ## run simulated schedules that were not run before, and record them (SCHEDULES=10000 NICE=0); or others (FIRST=0), or replay one (SEED=...)
	@$(PY) -m tests.sim --nice $(or $(NICE),0) $(if $(SEED),--seed $(SEED),$(if $(FIRST),--first $(FIRST) --schedules,--accumulate) $(or $(SCHEDULES),10000))

fuzz: setup ## fuzz the readers with damaged frames, records and files (INPUTS=10000000 SEED=1 NICE=0)
	@$(PY) -m tests.fuzz --inputs $(or $(INPUTS),10000000) --seed $(or $(SEED),1) --nice $(or $(NICE),0)

docs: setup ## build the documents as a site in docs/_build
	@.venv/bin/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build

proto: setup ## generate the protobuf modules again from proto/
	@$(PY) tools/generate_protos.py

clean: ## remove .venv and caches
	rm -rf .venv .stamps .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
