# `make demo` and `make test` are all a newcomer needs; every target sets up .venv first, once.
PYTHON ?= python3
READY := .venv/.ready
RAY_READY := .venv/.ready-ray

# The benchmarks' peers live beside .venv, which stays as requirements.lock says.
BENCH_PYTHON ?= .venv-bench/bin/python

.PHONY: setup demo lint test bench

setup: $(READY)

$(READY): requirements.lock setup.cfg pyproject.toml
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	touch $(READY)

# For the long tests alone: a run on one machine needs no Ray.
$(RAY_READY): $(READY) requirements-ray.lock
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-ray.lock
	touch $(RAY_READY)

demo: setup
	.venv/bin/python launcher.py demo

lint: setup
	.venv/bin/python -m ruff check
	.venv/bin/python -m ruff format --check
	.venv/bin/python -m mypy

# `make test ARGS="-k ledger"` runs a part, and no lint before it.
test: $(if $(ARGS),setup,lint) $(if $(findstring long,$(ARGS)),$(RAY_READY))
	.venv/bin/python tests/run.py $(ARGS)

.venv-bench/.ready: $(READY) setup.cfg
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > \
		"$$(.venv-bench/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/tandem.pth"
	.venv-bench/bin/python benchmarks/install_peers.py
	touch $@

# `make bench ARGS="--only overlap resume"` runs a part; BENCH_PYTHON names another environment.
bench: $(if $(filter .venv-bench/%,$(BENCH_PYTHON)),.venv-bench/.ready,setup)
	$(BENCH_PYTHON) benchmarks/run_all.py $(ARGS)
