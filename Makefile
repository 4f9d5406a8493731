# Penstock's commands. `make` alone lists them; each builds what it needs first, so that a fresh machine
# needs Python 3.10 to 3.13 and make, nothing else.

PYTHON ?= python3
RUN := .venv/bin/python
READY := .venv/.ready
READY35 := .venv-spark35/.ready
TESTS := $(RUN) scripts/run_tests.py

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z0-9-]+:.*## /{print $$1}' Makefile)

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) $(READY35) ## build both environments: newest PySpark, and PySpark 3.5

$(READY): pyproject.toml constraints.txt scripts/environment.py
	@$(PYTHON) scripts/environment.py newest

$(READY35): pyproject.toml constraints-spark35.txt scripts/environment.py
	@$(PYTHON) scripts/environment.py spark35

demo: $(READY) ## write a trips table, change it, read it back, and show what happened
	@$(RUN) examples/demo.py

test: setup ## run all suites, on every kind of session, with real Hudi (half of the slow parameters)
	@$(TESTS)

check: $(READY) ## lint, formatting and types
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/mypy scripts tests/kit tests/conftest.py

format: $(READY) ## fix lint and formatting
	.venv/bin/ruff check --fix-only --quiet .
	.venv/bin/ruff format .

test-unit: $(READY) ## run the tests that start no JVM
	@$(TESTS) unit

test-pages: $(READY) ## run the examples of every page as a program of its own, as a newcomer would
	@PENSTOCK_TEST_PAGES=all $(RUN) -m pytest -q tests/docs/test_pasted_pages.py

test-table: $(READY) ## run the table tests on the newest PySpark
	@$(TESTS) table

test-sessions: $(READY) ## run the session tests on Connect, local-cluster and a standalone cluster
	@$(TESTS) connect local-cluster standalone

test-spark35: setup ## run unit and table tests on PySpark 3.5 with the oldest libraries
	@$(TESTS) spark35

test-services: $(READY) ## run the tests of table services, of crashes, and of the counts that guard speed
	@$(TESTS) services

test-schedules: $(READY) ## run two writers in every order of their storage calls; an hour
	@PENSTOCK_TEST_SCHEDULES=1 $(RUN) -m pytest -q tests/crash/test_two_writers.py

test-model: $(READY) ## play every schedule of the commit protocol's model in memory; an hour
	@PENSTOCK_TEST_MODEL=1 $(RUN) -m pytest -q tests/model

soak: $(READY) ## run sixteen writer processes that are killed and stopped, with each lock, on disk and on S3; hours
	@$(RUN) -W ignore -m tests.soak.run --kind COPY_ON_WRITE
	@$(RUN) -W ignore -m tests.soak.run --kind MERGE_ON_READ
	@$(RUN) -W ignore -m tests.soak.run --kind MERGE_ON_READ --store s3 --commits 50
	@$(RUN) -W ignore -m tests.soak.run --lock zookeeper
	@$(RUN) -W ignore -m tests.soak.run --lock hive_metastore --kind MERGE_ON_READ
	@$(RUN) -W ignore -m tests.soak.run --lock dynamodb
	@$(RUN) -W ignore -m tests.soak.run --lock filesystem
	@$(RUN) -W ignore -m tests.soak.run --lock in_process

test-two-engines: setup ## run fifty rounds with real Hudi as the other writer, under ZooKeeper's lock and the metastore's
	@PENSTOCK_TEST_ROUNDS=50 $(RUN) -m pytest -q tests/interop/test_two_engines.py

test-many-partitions: $(READY) ## count the work of a one-row upsert and of a read of one partition, with 50 and 5,000 partitions
	@PENSTOCK_TEST_PARTITIONS=50,5000 $(RUN) -m pytest -q tests/bench/test_counts.py -k however_many_partitions

test-storage: $(READY) ## run the tests of object stores and HDFS, against real servers
	@$(TESTS) storage

test-storage-faults: $(READY) ## spoil every request of a write on S3 with every fault; hours
	@PENSTOCK_TEST_FAULTS=24 $(RUN) -m pytest -q -m server tests/storage/test_table_faults.py

test-storage-interop: setup ## write tables on S3 and HDFS in turns with real Hudi, ten rounds each
	@PENSTOCK_TEST_ROUNDS=10 $(RUN) -m pytest -q -m server tests/storage/test_interop.py

test-cluster: $(READY) ## kill executors in every stage of writes to S3, on a cluster that shares no disk
	@PENSTOCK_TEST_CLUSTER=1 $(TESTS) cluster

test-interop: setup ## run all tests that share tables with real Hudi and hudi-rs
	@$(TESTS) interop

test-servers: $(READY) ## run the tests of locks, with ZooKeeper, a Hive metastore and DynamoDB
	@$(TESTS) servers

include bench/bench.mk

docs: $(READY) ## render the pages and pictures that are generated from the code
	@$(RUN) scripts/render_options.py
	@$(RUN) scripts/draw_architecture.py

pins: $(READY) ## write the constraints files again
	@$(RUN) scripts/pin.py

release: $(READY) ## build wheel, source archive and SBOM, twice, and compare; uploads nothing
	@$(RUN) scripts/release.py

clean: ## remove environments, caches and build files
	rm -rf .venv .venv-spark35 .venv-bench bench/out .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist spark-warehouse artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
