# make run: the default study from scratch.  make bench: speed, scale, memory.
# make check: after every edit, the tests that it can reach.  make test: what CI runs.  make test-all: before a release.
# make numerics [REASON="why numbers change"]: lists edited code that computes the same numbers.
# make bench-gpu [SECONDS=240]: what one GPU does, or the processor. With the python3 at hand where there is no .venv.
# make test-snakemake VERSION=9.0: the workflow's tests with another version of Snakemake, in an environment of its own.
# make docs: the site.  make papers [SCALE=small] [WITH=download=false]: every table of the five papers.
VENV ?= .venv
BIN := $(VENV)/bin
CORES ?= all
CONFIG ?= config/study.yaml
PAPERS ?= fedcosr fedcrl fedccl fedssc fedsac
SCALE ?= full
SECONDS ?= 240
SECONDS_OF_CHECK ?= 40
WORKERS ?= $$(($$(nproc) + 2))
CONSTRAINTS ?= constraints.txt
EXTRAS ?= slurm,download,features,docs,test
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)
OTHER := $(VENV)-snakemake-$(VERSION)

.PHONY: run papers check test tests test-all test-snakemake lint numerics docs bench bench-gpu picture clean

run: $(VENV)/.run
	$(BIN)/fedgrid go $(CONFIG) $(if $(filter all,$(CORES)),,--cores $(CORES))
	@echo "Next: source $(VENV)/bin/activate, edit $(CONFIG), fedgrid plan, fedgrid go. docs/first-study.md says more."

# one after the other, for they share a store; one that fails does not keep the others from being made
papers: $(VENV)/.papers
	@failed=; for paper in $(PAPERS); do \
	  $(BIN)/snakemake --cores $(CORES) --keep-going --configfile config/papers/$$paper.yaml \
	    --config scale=$(SCALE) $(WITH) || failed="$$failed $$paper"; \
	done; [ -z "$$failed" ] || { echo "not finished:$$failed; the same command goes on" >&2; exit 1; }

# at once, for linting takes one core
test: $(VENV)/.test
	$(MAKE) --jobs 2 --keep-going lint tests

# two workers more than cores, for those that wait for a scheduler or a process; threads that wait for others must not spin, for they
# take the cores from them
tests: $(VENV)/.test
	OMP_WAIT_POLICY=PASSIVE $(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder -m "not full"

test-all: $(VENV)/.test lint
	OMP_WAIT_POLICY=PASSIVE $(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder --cov=fedgrid --cov-report=term:skip-covered

# nearest tests first; what there is no time for is counted, and left to `make test`
check: $(VENV)/.test lint
	$(BIN)/pytest -q -n $$(nproc) --dist loadscope --no-loadscope-reorder -m "not full" --reached $(SECONDS_OF_CHECK) || [ $$? = 5 ]

# every version of Snakemake asks for other versions of its plugins' interfaces, of PuLP and of wrapt
test-snakemake:
	@[ -n "$(VERSION)" ] || { echo "which version? make test-snakemake VERSION=9.0" >&2; exit 1; }
	mkdir -p $(OTHER)
	{ grep -viE '^(snakemake|pulp|wrapt)' constraints.txt; echo snakemake==$(VERSION); } > $(OTHER)/constraints.txt
	$(MAKE) $(OTHER)/.test VENV=$(OTHER) CONSTRAINTS=$(OTHER)/constraints.txt EXTRAS=slurm,download,features,test
	OMP_WAIT_POLICY=PASSIVE $(OTHER)/bin/pytest tests/run tests/workflow tests/cluster

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/lint-imports --no-cache

# edit code that keys count freely, and call this before it is committed
numerics: $(VENV)/.test
	$(BIN)/python -m benchmarks.numerics $(if $(REASON),--reason "$(REASON)")

bench: $(VENV)/.run
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.population
	PYTHONPATH=tests:tests/workflow $(BIN)/python -m benchmarks.planning

# a machine lent for minutes has torch, and no time for an environment
bench-gpu:
	PYTHONPATH=src $(or $(wildcard $(BIN)/python),python3) -m benchmarks.gpu --seconds $(SECONDS)

# site/index.html; a link that leads nowhere is an error
docs: $(VENV)/.test
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . site

# the picture of README.md, of what this version of the code gives
picture: $(VENV)/.run
	$(BIN)/snakemake --cores $(CORES) --configfile config/study.yaml
	$(BIN)/python -m fedgrid.analysis.pages.readme_picture results/digits/results.parquet docs/images/table

clean:
	rm -rf $(VENV) $(VENV)-snakemake-*

# torch first and by its exact version: a range would be answered with several gigabytes of CUDA packages
$(VENV)/.run: pyproject.toml $(CONSTRAINTS)
	@echo "installing into $(VENV), which takes some minutes"
	python3 -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) --editable '.[download]'
	touch $@

$(VENV)/.papers: $(VENV)/.run
	$(PIP) --editable '.[download,features]'
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(PIP) --editable '.[$(EXTRAS)]'
	touch $@
