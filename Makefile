# The two commands of the README are `make demo` and `make test`; `make` alone lists all.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LUA := $(shell find editors/nvim -name '*.lua')

.PHONY: help install demo test lint lua format bench vscode

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

demo: $(VENV)/.stet ## Install, fetch the small preset's weights (1.6 GB), rewrite a sample file
	$(BIN)/stet models fetch small --yes
	$(BIN)/stet rewrite docs/demo/inventory.py "Rename the attribute items to stock everywhere" --model small --compare

test: install ## Fetch the tiny preset's weights (0.5 GB), run all tests
	$(BIN)/stet models fetch tiny --yes
	$(BIN)/python -m pytest

lint: install lua ## Check format, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

lua: $(VENV)/stylua ## Check format and lint of the Neovim plugin (needs Node 20, npm and Debian's lua-check)
	node .ci/format-lua.mjs $< --check $(LUA)
	luacheck -q --config editors/nvim/.luacheckrc $(LUA)

format: install $(VENV)/stylua ## Format and fix what can be fixed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	node .ci/format-lua.mjs $(VENV)/stylua $(LUA)

bench: $(VENV)/.stet ## Replay edits through the drafters: make bench FILES='edits/*.jsonl'
	@test -n '$(FILES)' || { echo "make bench: say which tasks, e.g. make bench FILES='edits/*.jsonl'" >&2; exit 1; }
	$(BIN)/stet bench replay $(FILES)

vscode: editors/vscode/node_modules/.package-lock.json ## Check and package the VS Code extension (needs Node 20 and npm)
	cd editors/vscode && npm run --silent check && npm run --silent package

install: $(VENV)/.dev ## Make .venv with Stet and what its development needs

# The stamps make a second run instant; a changed pyproject.toml or torch version runs it again.
$(VENV)/.dev: $(VENV)/.stet
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c .ci/constraints.txt -e '.[dev]'
	@touch $@

# Scripts of packages are not run: none of those used here needs its own.
editors/vscode/node_modules/.package-lock.json: editors/vscode/package-lock.json
	cd editors/vscode && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error

$(VENV)/stylua:
	npm install --prefix $@ --ignore-scripts --no-audit --no-fund --loglevel=error @johnnymorganz/stylua@2.5.2 || \
		{ rm -rf $@; exit 1; }

$(VENV)/.stet: pyproject.toml .ci/constraints.txt .ci/install-torch
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Stet needs Python 3.11 or newer and '$(PYTHON)' is not; name another: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	.ci/install-torch $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c .ci/constraints.txt -e .
	@touch $@
