# The benchmark's commands, included by the Makefile. Flags go through the variables: make bench ROWS=200000 ENGINES=limit,penstock43

BENCH := .venv-bench/bin/python
READY_BENCH := .venv-bench/.ready
ENGINES ?= limit,penstock,penstock43,hudi015

# Steps whose size does not depend on ROWS: 1,000 columns, and 5,000 partitions.
SHAPES := W22a,W22b,W22c,W23a,W23b,W23c,W23d

.PHONY: bench bench-full bench-shapes bench-growth bench-indexes bench-requests bench-payloads bench-writers profile

$(READY_BENCH): bench/constraints.txt bench/requirements.txt bench/environment.py | $(READY)
	@$(PYTHON) -m bench.environment

bench: setup $(READY_BENCH) ## measure Penstock and real Hudi on this machine: 1 million rows, some minutes
	@$(BENCH) -m bench --rows $(or $(ROWS),1000000) --engines $(ENGINES) --repeat $(or $(REPEAT),1) --partitions $(or $(PARTITIONS),200) \
	  --out bench/out/bench $(FLAGS)

bench-full: setup $(READY_BENCH) ## measure 5 million rows on every engine, three rounds; hours; writes docs/benchmarks
	@$(BENCH) -m bench --rows $(or $(ROWS),5000000) --engines all --repeat $(or $(REPEAT),3) --timeout 14400 \
	  --out bench/out/full --publish docs/benchmarks $(FLAGS)
	@$(if $(ROWS)$(FLAGS),,$(BENCH) -m bench.figures)

bench-shapes: setup $(READY_BENCH) ## measure tables of 1,000 columns and of 5,000 partitions; writes a page to docs/benchmarks
	@$(BENCH) -m bench --engines $(or $(SHAPE_ENGINES),limit,penstock,penstock43,hudi015,delta,iceberg) --steps $(SHAPES) \
	  --repeat $(or $(REPEAT),1) --out bench/out/shapes --publish docs/benchmarks --page shapes $(FLAGS)

bench-growth: setup $(READY_BENCH) ## measure how time grows with batch, table, file groups, columns and commits; writes docs/benchmarks
	@$(BENCH) -m bench.growth --out bench/out/growth --publish docs/benchmarks $(FLAGS)

bench-indexes: $(READY) ## measure indexes: building filters, false positives as they grow, one upsert by each index
	@$(RUN) -m bench.indexes $(FLAGS)

bench-requests: setup ## count the requests to an object store of Penstock and of real Hudi; writes a page to docs/benchmarks
	@$(RUN) -W ignore -m bench.requests --page docs/benchmarks/requests.md $(FLAGS)

bench-payloads: $(READY) ## measure payloads: one upsert with each, compared with the default one
	@$(RUN) -m bench.payloads --rows $(or $(ROWS),1000000) $(FLAGS)

bench-writers: $(READY) ## measure several writers: cost of the check, how long the lock is held, a retry after a conflict, eight at once
	@$(RUN) -m bench.writers $(FLAGS)

profile: $(READY) ## show where an upsert spends its time: stages, JVM and Python, kernels, flame graphs
	@$(RUN) -m bench.profile --rows $(or $(ROWS),1000000) --workload $(or $(WORKLOAD),upsert) $(FLAGS)
