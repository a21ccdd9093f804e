# What a developer and CI run. The tools come with the package's extras; luacheck is Debian's.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup format check luacheck test matrix docs everywhere faults model planted cron-proof bench peers capacity demo alerts

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
# With SEED=N, and FAULT=NAME: the trials of the fault programme with this seed alone, as a failure tells them.
faults: $(READY)
ifdef SEED
	$(BIN)/python -m tests.faults.programme --seed $(SEED) $(if $(FAULT),--fault $(FAULT)) $(PROGRAMME)
else
	$(BIN)/python -m pytest tests/faults
endif

# Plants twelve bugs, each into a copy of the tree, and tells which tests see it. ARGS=finish-without-token: one.
planted: $(READY)
	$(BIN)/python -m tests.faults.planted $(ARGS)

# Every story on every server: 6.2 to 8 and Valkey, Cluster, Sentinel, TLS, Postgres 14 to 18, PgBouncer. Writes the page
# docs/reference/supported.md; some ten minutes on two cores. ARGS="-k postgres-14": some of them, the others stay as they were.
everywhere: $(READY)
	REDISJOBS_EVERYWHERE=all $(BIN)/python -m pytest tests/everywhere --dist loadgroup $(ARGS)

# The model of the protocol for long: RUNS runs from SEED on, then each rule taken away, then against the real scripts and
# statements with more STEPS. A run that breaks a promise is told with the command that shows it, made short.
model: SEED ?= 1000
model: RUNS ?= 20000
model: STEPS ?= 200
model: $(READY)
	$(BIN)/python -m tests.model run $(SEED) --runs $(RUNS)
	$(BIN)/python -m tests.model ablate 0 --runs 1000
	MODEL_SEED=$(SEED) MODEL_EXAMPLES=$(STEPS) MODEL_WALKS=$(STEPS) $(BIN)/python -m pytest -n0 tests/model --timeout 0

# All changes of the clocks from 2020 to 2037 in 75 zones, with more than 200 expressions: an hour and more on one core.
cron-proof: $(READY)
	REDISJOBS_CRON_PROOF=whole $(BIN)/python -m pytest tests/unit/test_cron_proof.py

bench: $(READY)
	$(BIN)/python -m benchmarks

# The race against other job queues, each in its safest mode: ONLY=arq,saq ROUNDS=3 JOBS=10000 MEASURES=drain,latency;
# PAGE=yes puts what was found into docs/peers.md.
peers: $(READY)
	$(BIN)/python -m benchmarks.peers $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	    $(if $(JOBS),--jobs $(JOBS)) $(if $(MEASURES),--measures $(MEASURES)) $(if $(PAGE),--into-page)

# Costs, connections and rest of this machine, and the simulation checked against it: the tables of docs/capacity.md.
capacity: $(READY)
	$(BIN)/python -m benchmarks.capacity

demo: $(READY)
	$(BIN)/redisjobs demo

# Rules, tests and configuration of examples/monitoring, by Prometheus' own tool.
alerts:
	@command -v promtool >/dev/null || { \
	    echo "make alerts needs promtool, which is not here; on Debian, as root: apt-get install prometheus" >&2; exit 1; }
	cd examples/monitoring && promtool check config prometheus.yml && promtool test rules alerts_test.yml
