# make run: the default study from nothing.  make test: everything that CI checks.  make bench: speed, scale, memory.
VENV ?= .venv
BIN := $(VENV)/bin
CORES ?= all
CONFIG ?= config/study.yaml
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test lint bench picture clean

run: $(VENV)/.run
	$(BIN)/snakemake --cores $(CORES) --configfile $(CONFIG)

test: $(VENV)/.test lint
	$(BIN)/pytest -n auto --dist loadscope

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.run
	$(BIN)/python -m benchmarks.throughput
	PYTHONPATH=tests:tests/workflow $(BIN)/python -m benchmarks.planning

# the picture of README.md, of what this version of the code gives
picture: $(VENV)/.run
	$(BIN)/snakemake --cores $(CORES) --configfile config/study.yaml
	$(BIN)/python -m fedgrid.analysis.picture results/digits/results.parquet docs/images/table

clean:
	rm -rf $(VENV)

# torch first and by its exact version: a range would be answered with several gigabytes of CUDA packages
$(VENV)/.run: pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) --editable '.[workflow,download]'
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(PIP) --editable '.[workflow,slurm,download,features,test]'
	touch $@
