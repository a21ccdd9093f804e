# What a developer and CI run. The tools come with the package's extras; luacheck is Debian's.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup format check luacheck test matrix docs faults bench demo alerts

setup: $(READY)

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[test,check]'
	touch $@

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: $(READY) luacheck
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports

luacheck:
	@command -v luacheck >/dev/null || { \
	    echo "make check needs luacheck, which is not here; on Debian, as root: apt-get install lua-check" >&2; exit 1; }
	luacheck --quiet --no-color lua

test: $(READY)
	$(BIN)/python -m pytest

# The same on every supported Python that can be found here; what could not be found is told. ARGS=tests/unit: a part.
matrix:
	$(PYTHON) .ci/matrix.py $(ARGS)

# Writes docs/reference anew from the code; a test fails where it is stale.
docs: $(READY)
	$(BIN)/python -m reference

# The slow ones apart: kills, pauses, lost replies. With REDISJOBS_FAULTS=night or =release: more and longer repeats.
faults: $(READY)
	$(BIN)/python -m pytest tests/faults

bench: $(READY)
	$(BIN)/python -m benchmarks

demo: $(READY)
	$(BIN)/redisjobs demo

# Rules, tests and configuration of examples/monitoring, by Prometheus' own tool.
alerts:
	@command -v promtool >/dev/null || { \
	    echo "make alerts needs promtool, which is not here; on Debian, as root: apt-get install prometheus" >&2; exit 1; }
	cd examples/monitoring && promtool check config prometheus.yml && promtool test rules alerts_test.yml
