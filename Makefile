# `make demo` and `make test` are all a newcomer needs; both set up .venv first, once.
PYTHON ?= python3
READY := .venv/.ready

.PHONY: setup demo test

setup: $(READY)

$(READY): requirements.lock setup.cfg pyproject.toml
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	touch $(READY)

demo: setup
	.venv/bin/python launcher.py demo

test: setup
	.venv/bin/python -m pytest
