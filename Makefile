# Everything runs in a virtual environment of its own; the only things needed beforehand are Python and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-all bench docs format lint install clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: install
	mkdir -p out
	$(BIN)/clock-attention speak "The birch canoe slid on the smooth planks." \
		-o out/demo.wav --plot out/demo.png --timestamps out/demo.TextGrid

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -m "not slow" -n 2

test-all: lint
	$(BIN)/pytest -n 2

bench: install
	$(BIN)/python benchmarks/attention.py
	$(BIN)/python benchmarks/training_step.py
	$(BIN)/python benchmarks/streaming.py
	$(BIN)/python benchmarks/speak.py

docs: install  # into site/; fails on a broken link
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	$(BIN)/python docs/tables.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
