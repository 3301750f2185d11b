# volbench: `make demo` on a bare machine ends with a report; `make help` tells the rest.
# Every target sets up what it needs, says what and why, and does nothing twice.
PYTHON ?= python3
BOOTSTRAP := PYTHONPATH="$(CURDIR)/runner" PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m bootstrap
BIN := .venv/bin

# The demo compares a directory of this machine with an emulated gp3 volume, or with memory where none can be emulated.
# A server of root runs as a user who may not enter /root, unless root may make a mount namespace for it.
DEMO_DISK ?= $(shell [ "$$(id -u)" != 0 ] || unshare --mount true 2>/dev/null && echo $(HOME)/.cache/volbench/demo || echo /var/cache/volbench/demo)
DEMO_CLASS ?= local-path
BENCHMARKS ?= growth sampling sampling_threads sampling_effect template_copy small_files long_run verdict_rates looks volumes_decided run_blocks covariates slope_signs repeated_cells sequential_verdicts node_blocks cluster_watch cluster_scale credits compare_time association_rates change_points history query reading engines slow_log large_log checksums cell_overhead
PYTEST ?=
# Forks of one collection (tests/support/forked.py): some begin with tests that compute, some with tests that wait.
JOBS ?= auto
CHECK_JOBS ?= $(shell nproc)
# Workers, and hundreds of processes that tests start, import the same modules: compiled ones, whatever the environment says.
TESTS := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
BARE ?= bookworm
SPLIT ?= test
# Labs are scripts: each finds its modules beside itself.
LAB_TYPES := $(BIN)/mypy --follow-imports=silent --cache-dir .mypy_cache/lab
# What `make check` runs: nothing that needs an engine, a server, a browser or a device.
CHECK ?= tests/unit tests/contract tests/golden tests/sentences
# Files with tests that need a cluster: to collect all others takes longer than most of these tests.
CLUSTER_TESTS ?= $(sort $(shell grep -rl 'pytest\.mark\.kubernetes' tests --include='test_*.py'))
CLUSTER_MARK ?= kubernetes and not slow
CHECKED ?= not slow and not docker and not kubernetes and not emulator and not browser and not mysqld and not nfs
RUNS ?= 5
EXAMPLE_RUNS ?= .cache/example-runs
ARCHIVE ?= .cache/volbench-examples.tar.xz
SEED ?= 4
EXECUTIONS ?= 100000
FOR ?= 7000
ONLY ?=
WHAT_IF_OUT ?= /var/tmp/volbench-lab-what-if
CONDITIONS ?=
LAB ?= PYTHONPATH=tests/lab:tests/support $(BIN)/python -m explain
UNSEEN ?= 14
LAB_VM ?= image
CAUSES ?= PYTHONPATH=tests/lab:tests/support $(BIN)/python -m causes

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-kubernetes test test-bare test-slow test-servers test-kubernetes test-kubernetes-slow test-profiles test-emulator posix-suites volume-image check fuzz lint lint-package lint-labs format docs examples examples-archive mutants picture proofread changelog lock engine krew release release-check verify-release images lexer local bench bench-emulator bench-kubernetes lab lab-causes lab-recordings-public lab-budgets lab-vm test-vm clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

setup: ## Python environment, Docker engine and images; the local target's programs where containers are impossible
	@$(BOOTSTRAP) demo

demo: setup ## real MySQL on two volumes of this machine, and a report that compares them
	@mkdir -p $(DEMO_DISK) /dev/shm/volbench-demo
	@$(BIN)/volbench run suites/quick.yaml --volume disk=path:$(DEMO_DISK) --volume $$($(BOOTSTRAP) second-volume) \
	  --target $$($(BOOTSTRAP) target) --yes || [ $$? -eq 6 ] # 6: no verdict

demo-kubernetes: ## the demo as pods of the current context's cluster: DEMO_CLASS=gp3 DEMO_SERVER_IMAGE=... DEMO_TOOLS_IMAGE=...
	@$(BOOTSTRAP) python
	@kubectl apply -k k8s/base
	@$(BIN)/volbench run suites/quick.yaml --target kubernetes --target-option namespace=volbench --yes \
	  --volume a=storage-class:$(DEMO_CLASS)?size=20Gi --volume b=storage-class:$(DEMO_CLASS)?size=20Gi \
	  $(if $(DEMO_SERVER_IMAGE),--set engine.image=$(DEMO_SERVER_IMAGE)) \
	  $(if $(DEMO_TOOLS_IMAGE),--tools-image $(DEMO_TOOLS_IMAGE)) || [ $$? -eq 6 ]

test: ## every test but the slow ones; REQUIRE=docker,browser fails where one of them is missing
	@$(BOOTSTRAP) test
	@$(TESTS) --forks $(JOBS) $(PYTEST)

test-bare: ## `make demo` and `make test` on a bare Debian in namespaces of its own; BARE=trixie for Debian 13
	@$(PYTHON) tests/lab/bare --suite $(BARE) 'make demo' 'make test'

test-kubernetes: ## the tests of the kubernetes target, on the current context's cluster or one made for them and ended after
	@$(BOOTSTRAP) test
	@made=; $(BIN)/python -c 'import sys; sys.path.insert(0, "tests/support"); import cluster_run; sys.exit(not cluster_run.ready().present)' \
	  || made=yes; $(BOOTSTRAP) cluster && \
	  REQUIRE=kubernetes $(BIN)/python -m pytest -m "$(CLUSTER_MARK)" --durations=15 $(CLUSTER_TESTS) $(PYTEST); code=$$?; \
	  [ -z "$$made" ] || $(PYTHON) tests/lab/kubernetes down; exit $$code

test-kubernetes-slow: ## the kubernetes target with real Kueue, Karpenter and Kyverno, which the lab compiles once
	@$(MAKE) --no-print-directory test-kubernetes CLUSTER_MARK="kubernetes and slow" \
	  CLUSTER_TESTS="$(patsubst %,tests/integration/test_kubernetes_%.py,queue kueue karpenter kyverno)"

test-profiles: ## MySQL and MariaDB on every emulated profile, killed and without power; writes the table of what they kept
	@$(BOOTSTRAP) test
	@VOLBENCH_SERVERS_TABLE=results/examples/emulator/servers.md \
	  $(BIN)/python -m pytest -m slow tests/integration/test_emulated_server.py $(PYTEST)

test-emulator: posix-suites ## the long tests of emulated volumes: twenty kills, 10^5 operations against a plain directory, fsx
	@$(BOOTSTRAP) test
	@$(BIN)/python -m pytest -m slow tests/integration/test_emulated_recovery.py \
	  tests/integration/test_emulated_files.py tests/integration/test_emulated_posix.py $(PYTEST)

posix-suites: ## fsx and pjdfstest, built by cargo, for the tests of emulated volumes
	@$(BOOTSTRAP) posix-suites

volume-image: setup ## the image of docker/volumes: an emulated volume as a container
	@tar -c -C docker/volumes Dockerfile serve.sh -C "$(CURDIR)/$(BIN)" volbench-volume | \
	  docker build -q --network=host -t volbench.invalid/volume:0.2.0 --build-arg TOOLS=volbench.invalid/tools:0.2.0 -

check: lint ## before each commit: format, lint, types, layers, unit and contract tests, drift of generated files
	@$(TESTS) -q --forks $(CHECK_JOBS) -m "$(CHECKED)" $(CHECK) $(PYTEST)

fuzz: ## the structured fuzzer and the sweep of faults: EXECUTIONS=100000 SEED=4; goes on where it was (tests/fuzz/README.md)
	@$(BOOTSTRAP) python
	@PYTHONPATH=runner:tests/support $(BIN)/python -m fuzz --structured --executions $(EXECUTIONS) --seed $(SEED) \
	  --state .cache/fuzz/$(SEED) --keep .cache/fuzz/inputs
	@$(BIN)/python -m pytest -q -m slow tests/integration/test_fault_sweep.py tests/integration/test_socket_faults.py

lint: ## style, types, layers
	@$(BOOTSTRAP) python
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs=2 lint-package lint-labs

lint-package: ## types and layers of the package and its tests
	@$(BIN)/mypy
	@$(BIN)/lint-imports

lint-labs: ## types of the labs
	@MYPYPATH=tests/lab:tests/support $(LAB_TYPES)/all tests/lab/*.py $(foreach lab,causes decisions explain recordings response verdicts vm,tests/lab/$(lab)/*.py)
	@MYPYPATH=tests/lab/bare $(LAB_TYPES)/bare tests/lab/bare/*.py
	@MYPYPATH=tests/lab/kubernetes $(LAB_TYPES)/kubernetes tests/lab/kubernetes/*.py

format: ## fix layout, import order and simple faults with ruff
	@$(BOOTSTRAP) python
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: ## every generated file (schemas, suites/README.md, pages of the examples; see `git diff`), and the site in site/
	@$(BOOTSTRAP) python
	@PYTHONPATH=tests/support $(BIN)/python tests/support/generated.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "the documentation is in site/: $(BIN)/python -m http.server -d site"

examples: ## renders the examples' pages again from the archive of their raw runs: ARCHIVE=FILE, which results/examples/archive.json names
	@$(BOOTSTRAP) python
	@PYTHONPATH=runner:tests/support $(BIN)/python tests/support/example_archive.py render "$(ARCHIVE)"

examples-archive: ## the archive of the examples' raw runs: EXAMPLE_RUNS=DIRECTORY, which has EXAMPLE/RUN, ARCHIVE=FILE
	@$(BOOTSTRAP) python
	@PYTHONPATH=runner:tests/support $(BIN)/python tests/support/example_archive.py pack "$(EXAMPLE_RUNS)" "$(ARCHIVE)"

picture: ## takes the picture of README.md from the stored figures of the demo, with Chromium
	@$(BOOTSTRAP) python
	@PYTHONPATH=runner:tests/support $(BIN)/python tests/support/pictures.py results/examples/quick/report.json.xz docs/pictures/report.png

mutants: ## changes each constant of explain by 1.3 and asks whether a test fails: ONLY=check/ FOR=7000; goes on where it was
	@$(BOOTSTRAP) python
	@$(BIN)/python tests/support/rule_mutants.py --state .cache/mutants.json --for $(FOR) --only $(ONLY) --table .cache/mutants.md

proofread: ## headlines and findings of all examples in one page, to be read: .cache/proofread.html
	@$(BOOTSTRAP) python
	@PYTHONPATH=runner:tests/support $(BIN)/python tests/support/proofread.py .cache/proofread.html

changelog: ## what the next release says, from the news fragments of docs/changes
	@$(BOOTSTRAP) python
	@$(BIN)/towncrier build --draft --version next

lock: ## update the lock files
	@$(BOOTSTRAP) lock

engine: ## a Docker engine that answers
	@$(BOOTSTRAP) engine

krew: ## the kubectl plugin for krew: dist/kubectl-volbench.tar.gz, and its manifest with the checksum
	@mkdir -p dist
	@tar -cf - --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C k8s/krew kubectl-volbench -C ../runner fetch.sh fetch.yaml \
	  -C ../.. LICENSE | gzip -n >dist/kubectl-volbench.tar.gz
	@sum=$$(sha256sum dist/kubectl-volbench.tar.gz | cut -d' ' -f1); \
	  sed "s/sha256: .*/sha256: \"$$sum\"/" k8s/krew/volbench.yaml >dist/volbench.yaml
	@echo "dist/volbench.yaml: kubectl krew install --manifest=dist/volbench.yaml --archive=dist/kubectl-volbench.tar.gz"

release: ## sdist and wheels in dist/release, tried in a clean environment; then what to tag. REHEARSAL=1 with placeholders left
	@$(BOOTSTRAP) python
	@$(if $(REHEARSAL),:,PYTHONPATH=runner $(BIN)/python -P -m release.placeholders)
	@rm -rf dist/release
	@PYTHONPATH=runner $(BIN)/python -P -m release make dist/release $(if $(REHEARSAL),--rehearsal)

release-check: ## files of a release in dist/release, built twice from HEAD and compared; bill of materials, checksums
	@$(BOOTSTRAP) python
	@rm -rf dist/release
	@PYTHONPATH=runner $(BIN)/python -P -m release check dist/release

verify-release: ## DIR=...: compare the files of a release with its SHA256SUMS, and say how to check its signature
	@$(BOOTSTRAP) python
	@PYTHONPATH=runner $(BIN)/python -P -m release verify "$(DIR)"
	@echo "signature: gh attestation verify FILE --repo OWNER/volbench --bundle $(DIR)/provenance.sigstore.json"

images: ## the tools image of this code, MySQL and MariaDB
	@$(BOOTSTRAP) images

lexer: ## the SQL lexer, compiled from runner/lexer into the package
	@$(BOOTSTRAP) python

local: ## server and tools for the local target, without containers
	@$(BOOTSTRAP) local

bench: ## volbench's own speed and memory: each benchmark prints its figures and its limit
	@$(BOOTSTRAP) test
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python tests/benchmarks/$$name.py || failed="$$failed $$name"; done; \
	  [ -z "$$failed" ] || { echo "missed a limit, or failed:$$failed"; exit 1; }

bench-emulator: ## the emulator's figures: limits, latencies, overhead, CPU, memory
	@$(BOOTSTRAP) test
	@$(BIN)/python tests/benchmarks/emulator.py

bench-kubernetes: ## a cell as a pod beside one in containers, N cells on N nodes beside one: on the current context or the lab
	@$(BOOTSTRAP) test
	@$(BOOTSTRAP) cluster
	@$(BIN)/python tests/benchmarks/cluster_cells.py

lab: ## causes made on purpose, and which were named: CONDITIONS=a,b RUNS=5 SEED=4 SPLIT=test; goes on where it was
	@$(BOOTSTRAP) test
	@$(LAB) run --split $(SPLIT) --runs $(RUNS) --seed $(SEED) --conditions "$(CONDITIONS)"
	@$(BIN)/python tests/benchmarks/what_if.py --out $(WHAT_IF_OUT) --json results/examples/what-if/pairs.json || [ $$? -eq 1 ]
	@$(LAB) score
	@$(LAB) recordings --split $(SPLIT) --seed $(SEED)

lab-causes: ## causes made by the kernel and other programs, as root: CONDITIONS=a,b RUNS=5 SEED=4; goes on where it was
	@$(BOOTSTRAP) test
	@$(BOOTSTRAP) lab-tools
	@$(CAUSES) run --runs $(RUNS) --seed $(SEED) --conditions "$(CONDITIONS)"
	@$(CAUSES) score
	@$(CAUSES) calibrate

lab-recordings-public: ## explain the recordings of a public repository and hold each named limit against its thread sweep: RECORDINGS=DIR
	@PYTHONPATH=tests/lab $(BIN)/python -m recordings.public

lab-budgets: ## whether the pieces of a transaction's time sum up, and name the cause, on the runs of both labs: UNSEEN=14
	@$(BOOTSTRAP) test
	@$(LAB) twins --split $(SPLIT) --runs $(RUNS) --seed $(SEED) --conditions "$(CONDITIONS)"
	@PYTHONPATH=tests/lab $(BIN)/python -m causes.budgets --unseen $(UNSEEN) --to results/examples/lab/causes/budgets.md

lab-vm: ## a virtual machine with Debian's kernel: LAB_VM="run script.sh", "pytest tests/unit", "record stacks", table (tests/lab/vm/README.md)
	@$(BOOTSTRAP) test
	@PYTHONPATH=tests/lab:runner $(BIN)/python -m vm $(LAB_VM)

test-vm: ## facts, sources and bad input on a real kernel with NFS, NVMe, device mapper, md and cgroup v2; in the virtual machine
	@$(BOOTSTRAP) test
	@PYTHONPATH=tests/lab:runner $(BIN)/python -m vm pytest -q -o addopts= -m vm tests/vm $(PYTEST)

test-slow: posix-suites ## the tests that are slow by nature, which `make test` leaves out; an hour and more
	@$(BOOTSTRAP) test
	@$(BIN)/python -m pytest -m "slow and not kubernetes" $(PYTEST)

test-servers: ## attaches over TCP to each server image that a registry gives, else to those built here; writes docs/servers.md
	@$(BOOTSTRAP) test
	@VOLBENCH_SERVERS_PAGE=docs/servers.md $(BIN)/python -m pytest -m servers $(PYTEST)

clean: ## caches, the site and the Python environment; results and images stay
	@rm -rf site .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist
	@find runner tests -name __pycache__ -type d -prune -exec rm -rf {} +
