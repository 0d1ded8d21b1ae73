# Each target makes its own environment in .venv. A stamp file says what is installed; it is made again when the metadata changes.
# A CPU build of torch is enough for everything here. Where pip's default build brings gigabytes of CUDA, install the CPU build of
# the version in constraints.txt into .venv first, or point pip at it (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL).
PYTHON ?= python3
WORKERS ?= 2
V := .venv/bin
META := settings.ini setup.py constraints.txt
PIP := $(V)/python -m pip install --disable-pip-version-check -c constraints.txt
RUN := HF_HUB_OFFLINE=1 MPLBACKEND=Agg PATH="$(CURDIR)/$(V):$$PATH"
# one thread a worker: two notebooks at a time on two cores
TEST := $(RUN) OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: help demo test test-nbs test-py docs lab train execute export readme check constraints clean experiments experiment versions fuzz
help:
	@echo 'make demo     decode with the embedded pair, compare, time'
	@echo 'make test     the notebooks and tests/ (offline once installed)'
	@echo 'make lab      JupyterLab on the first tutorial'
	@echo 'make docs     the docs site, in _docs/'
	@echo 'make export   specdec/ and README.md from the notebooks'
	@echo 'make execute  run the notebooks and save their outputs (NB="nbs/...": only these)'
	@echo 'make check    what is committed is what the notebooks say; imports point down; no lint'
	@echo 'make experiments   measure the experiments again, into results/, and compare (NAME=temperature: only this one)'
	@echo 'make versions      the core checks on other versions of Python, torch and transformers (ARGS="--python 3.12": only these)'
	@echo 'make fuzz          the long profile of the property tests (SEED=7: this one)'
	@echo 'make train    train the embedded pair again: hours'
	@echo 'make clean    remove what the other targets made, .venv too'

.venv/package: $(META)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12 ...")'
	test -x $(V)/python || $(PYTHON) -m venv .venv
	@echo '== 1 of 2: torch, by far the largest part'
	$(PIP) torch
	@echo '== 2 of 2: the package and what else it needs'
	$(PIP) -e .
	@touch $@

.venv/dev: .venv/package
	@echo '== the tools of the tests: nbdev, JupyterLab and their like'
	$(PIP) -e '.[dev]'
	@touch $@

demo: .venv/package
	@$(RUN) specdec demo $(ARGS)

test: test-nbs test-py

test-nbs: .venv/dev
	$(TEST) nbdev_test --n_workers $(WORKERS) --timing --do_print

test-py: .venv/dev
	$(TEST) python -m pytest tests -n $(WORKERS) --dist loadfile -m 'not slow'

docs: .venv/dev
	$(RUN) python tools/build_docs.py
	$(V)/python tools/checklinks.py _docs

lab: .venv/dev
	PATH="$(CURDIR)/$(V):$$PATH" jupyter lab nbs/tutorials/start_here.ipynb

train: .venv/dev
	$(RUN) python tools/execute.py --flags train nbs/tutorials/train_tiny_pair.ipynb

# an hour and a half, and half an hour more for SmolLM2 where it is installed; each page says its own time; what was stopped goes on
experiments experiment: .venv/dev
	$(RUN) python tools/experiments.py $(NAME)

versions: .venv/dev
	$(RUN) python tests/versions/run.py --record tests/versions/results.csv $(ARGS)

fuzz: .venv/dev
	$(TEST) HYPOTHESIS_PROFILE=long python -m pytest -q tests/test_properties.py tests/test_fuzz.py $(if $(SEED),--hypothesis-seed=$(SEED)) --hypothesis-show-statistics

execute: .venv/dev
	$(RUN) python tools/execute.py $(NB)

export: .venv/dev
	$(RUN) nbdev_export
	$(RUN) nbdev_clean
	$(RUN) python tools/mkreadme.py

readme: .venv/dev
	$(RUN) python tools/mkreadme.py

# says whether the tree is as the notebooks make it: commit before, since a difference is left in place to be seen
check: .venv/dev
	$(RUN) nbdev_export
	$(RUN) nbdev_clean
	git diff --exit-code --stat
	test -z "$$(git status --porcelain)" || { git status --short; exit 1; }
	$(RUN) python tools/mkreadme.py --check
	$(V)/python tools/dag.py
	$(V)/ruff check --output-format concise specdec tools tests setup.py

constraints: .venv/dev
	$(V)/python tools/constraints.py > constraints.new && mv constraints.new constraints.txt

clean:
	rm -rf .venv _docs _proc results build dist *.egg-info nbs/nbdev.yml nbs/sidebar.yml .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
