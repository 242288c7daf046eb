# Everything runs in a virtual environment of its own; the only things needed beforehand are Python and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SPEAKS := $(VENV)/.speaks
PIP := $(BIN)/python -m pip --disable-pip-version-check
SENTENCE := The birch canoe slid on the smooth planks.

.PHONY: demo test test-all wheel runtime bench gpu-tools gpu-check docs format lint install clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@ $(SPEAKS)

$(SPEAKS): pyproject.toml constraints.txt  # what speaking needs, a fraction of the above
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -c constraints.txt -e ".[speak]"
	touch $@

demo: $(SPEAKS)
	mkdir -p out
	$(BIN)/clock-attention speak "$(SENTENCE)" \
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

wheel:  # builds it, installs it alone in a clean environment, and speaks from there
	rm -rf dist build $(VENV)-wheel
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(VENV)-wheel/bin/python -m pip install --quiet -c constraints.txt "$$(ls dist/*.whl)[speak]"
	cd dist && "$(abspath $(VENV)-wheel)/bin/clock-attention" --version
	cd dist && "$(abspath $(VENV)-wheel)/bin/clock-attention" speak "$(SENTENCE)" -o wheel.wav

runtime: install  # the wheel without torch, alone in a clean environment: does it speak as torch does?
	rm -rf out/runtime packaging/runtime/build $(VENV)-runtime
	$(PYTHON) -m venv $(VENV)-runtime
	$(VENV)-runtime/bin/python -m pip wheel --quiet --no-deps --wheel-dir out/runtime ./packaging/runtime
	$(VENV)-runtime/bin/python -m pip install --quiet out/runtime/*.whl
	$(BIN)/python packaging/runtime/check.py $(VENV)-runtime/bin/python

gpu-tools: install  # Triton, 290 MB: with it `make test` also interprets and compiles the kernels for GPUs
	$(PIP) install --quiet -c constraints.txt -e ".[gpu]"

gpu-check: install  # for a machine with a GPU: is the kernel right there, and how fast? Writes a file to send in
	$(BIN)/python benchmarks/gpu_check.py --out out/gpu_check.json

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
	rm -rf $(VENV) $(VENV)-wheel $(VENV)-runtime build dist site .pytest_cache .mypy_cache .ruff_cache
