# MGB's front door. `make help` lists what one needs first, `make help-all` all targets: those whose sentence has three marks.

# Everything is built with one profile, so that nothing is built twice.
CARGO_FLAGS = --release --workspace --locked
TARGET = $(or $(CARGO_TARGET_DIR),target)/release
STAGED = $(CURDIR)/build
# Where `make install` installs, below DESTDIR.
PREFIX = /usr/local
DESTDIR =

# Tests use the CUDA tree that set-up found, and the folder that `build` has laid out.
export MGB_PREFIX = $(STAGED)
CARGO = CUDA_PATH=$$(tools/cuda.sh find) cargo

.DEFAULT_GOAL := help
.PHONY: help help-all setup build install uninstall dist tarball debs wheel package-test wheel-test release starters-test containers-test commits nightly lowest-rust examples conformance benches bench-table gain-picture libraries random matrix generated twins demo test test-quick kill-test queue-test next soak \
	levels-test random-test api-test attack-test mutation-test hostile fuzz fuzz-guided loom coverage asan systemd-test slurm-test slurm-many slurm-vm lit lit-19 check bundle deny support clean

help: ## list the targets that one needs first
	@awk -F ':.* ## ' '/^[a-z-]+:.* ## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  make help-all     list all targets: parts of the build, longer tests, packages, benchmarks, documents"

help-all: ### list all targets
	@awk -F ':.* ##+ ' '/^[a-z-]+:.* ##+ / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing: Debian packages, CUDA 13.0 (see tools/setup.sh)
	@tools/setup.sh

build: setup ## build everything, and lay it out in build/
	$(CARGO) build $(CARGO_FLAGS)
	@tools/stage.sh $(TARGET) $(STAGED)

install: ## install what `make build` has made: PREFIX=/usr/local, DESTDIR= (tools/install.py)
	@tools/install.py --destdir "$(DESTDIR)" install "$(STAGED)" "$(PREFIX)" run clang slurm

uninstall: ## remove exactly what `make install` installed, with the same PREFIX and DESTDIR
	@tools/install.py --destdir "$(DESTDIR)" uninstall "$(PREFIX)"

examples: build ### build the examples, plain and with MGB, in build/examples/
	@tools/programs.sh $(STAGED) examples

dist: examples ### build what is packaged, smaller, in build/dist/
	@tools/dist.sh $(or $(CARGO_TARGET_DIR),target) $(STAGED)/dist

tarball: dist ### pack dist/mgb-VERSION-x86_64-linux.tar.gz, which runs from any folder
	@tools/setup.sh patchelf
	@packaging/tarball.sh $(STAGED)/dist dist

debs: dist ### pack the Debian packages mgb, mgb-clang and mgb-slurm in dist/ (DEBFULLNAME and DEBEMAIL: who maintains them)
	@tools/setup.sh patchelf dpkg-dev
	@packaging/debs.sh $(STAGED)/dist dist

wheel: dist ### pack dist/mgb-VERSION-py3-none-manylinux_2_34_x86_64.whl, for `pip install` (docs/PYTHON.md)
	@tools/setup.sh python3-wheel
	@packaging/wheel.sh $(STAGED)/dist dist

package-test: tarball debs ### the tarball and the packages in small Debians: installed, upgraded, removed (root; not in make test)
	@tools/setup.sh debootstrap
	tests/packages/packages.py

wheel-test: wheel examples ### the wheel in virtual environments: installed, used from Python, upgraded, removed (not in make test)
	@tools/setup.sh python3-venv
	tests/wheel/wheel.py

release: ## make a release ready in dist/: checks, tests, tarball, packages, wheel, notes, parts list, sums (see RELEASING.md)
	@packaging/release.sh $(STAGED)/dist dist

starters-test: examples ### programs that GNU parallel, Snakemake and Ray start (from Debian and PyPI; not in make test)
	@tools/setup.sh parallel python3-venv
	@test -e $(STAGED)/starters/done || { python3 -m venv $(STAGED)/starters && \
		$(STAGED)/starters/bin/pip install --quiet ray snakemake && touch $(STAGED)/starters/done; }
	tests/starters/starters.py --tools $(STAGED)/starters

# The checker of CDI files, which has many dependencies, is no part of the workspace.
CDI_CHECKER = container-device-interface@1.1.1
containers-test: examples ### MGB in containers of podman, root's and a user's, on software GPUs (root; not in make test)
	@tools/setup.sh podman crun uidmap slirp4netns debootstrap
	@test -x $(STAGED)/containers/bin/validate || cargo install --quiet --locked --root $(STAGED)/containers $(CDI_CHECKER)
	tests/containers/containers.py

demo: examples ## run 26 jobs under each of three policies, on GPUs if there are any, else on software GPUs
	$(STAGED)/bin/mgb demo --page $(STAGED)/demo.html

test: build check lit loom ## every check and every test; the long ones play a part of what their own targets play (make nightly)
	@tools/setup.sh lld-22 ccache
	@tools/deny.sh --if-there
	$(CARGO) test $(CARGO_FLAGS) --doc --quiet
	CUDA_PATH=$$(tools/cuda.sh find) tools/test.py

nightly: ### what make test leaves out, stage by stage: all rounds of the long tests, and what needs root (tools/nightly.py --list)
	@tools/nightly.py

# A target folder of its own: the tool chains would take turns at building everything anew.
lowest-rust: setup ### check everything with the lowest Rust that Cargo.toml names (rustup)
	version=$$(sed -n 's/^rust-version = "\(.*\)"$$/\1/p' Cargo.toml) && rustup toolchain install --profile minimal $$version && \
		CUDA_PATH=$$(tools/cuda.sh find) rustup run $$version cargo check --workspace --all-targets --locked \
			--target-dir $(TARGET)/lowest-rust

test-quick: build ## what is done in a minute, for in between: tests/plan.toml says what is left out
	CUDA_PATH=$$(tools/cuda.sh find) tools/test.py --quick

levels-test: build ### the examples at every level of optimisation (make test: at -O0 and -O1)
	$(CARGO) test $(CARGO_FLAGS) --test e2e -- --ignored needs:: explain::

kill-test: build ### run the whole killing tests: 200 rounds of 8 clients, 1000 of 2 processes, 1000 of moves and 1000 of holds on softgpu (make test runs a few)
	MGB_KILL_ROUNDS=200 MGB_NEIGHBOUR_ROUNDS=1000 MGB_MOVE_ROUNDS=1000 MGB_HELD_ROUNDS=1000 \
		$(CARGO) test $(CARGO_FLAGS) --test e2e -- --nocapture \
		kill:: neighbours:: moving::room held::

queue-test: build ### 10,000 jobs (MGB_QUEUE_JOBS) through the queue while its service is killed again and again (make test: 60)
	MGB_QUEUE_JOBS=$(or $(MGB_QUEUE_JOBS),10000) $(CARGO) test $(CARGO_FLAGS) --test e2e -- --nocapture queue::a_service

random-test: build ### run 10,000 random programs and 200 generated ones on softgpu, natively and under MGB (make test runs a few; MGB_RANDOM_FIRST=N: others)
	MGB_RANDOM_SEEDS=10000 MGB_GENERATED_SOURCES=40 $(CARGO) test $(CARGO_FLAGS) --test random --test generated -- \
		--nocapture --test-threads=2

api-test: build ### random calls of the driver's API on softgpu, 20,000 seeds (MGB_API_SEEDS), natively and behind the driver front; make test plays 100
	MGB_API_SEEDS=$(or $(MGB_API_SEEDS),20000) $(CARGO) test $(CARGO_FLAGS) --test driver_api -- --nocapture

# MGB_GENERATED_FIRST and MGB_GENERATED_FEATURES choose others.
attack-test: build ### sources that attack the pass (MGB_GENERATED_SOURCES, 250 of eight programs), in seven arrangements on softgpu; what fails is kept
	MGB_GENERATED_SOURCES=$(or $(MGB_GENERATED_SOURCES),250) $(CARGO) test $(CARGO_FLAGS) --test generated -- --nocapture attacks::

mutation-test: build ### what the pass proves is switched off, one proof after the other: such sources must notice
	$(CARGO) test $(CARGO_FLAGS) --test generated -- --nocapture --ignored mutations::

fuzz: build ### the tests with arbitrary input, 20,000 inputs each (make test: 256, and 32 for mgbd's clients)
	PROPTEST_CASES=20000 $(CARGO) test $(CARGO_FLAGS) --lib --test hostile -- any_ whatever_ what_can_be_read

# Short unless MGB_HOSTILE_MINUTES says how long.
hostile: build ### the attacks that SECURITY.md names, one round, or as many as end in MGB_HOSTILE_MINUTES (60 before a release)
	@CUDA_PATH=$$(tools/cuda.sh find) tools/hostile.py $(MGB_HOSTILE_MINUTES)

# libFuzzer's instrumentation is an unstable option of rustc, which RUSTC_BOOTSTRAP lets the stable one take.
FUZZ_TARGETS = channel opening view journal line files past slurm
fuzz-guided: setup ### coverage-guided fuzzing of what mgbd and mgb read, each target for MGB_FUZZ_SECONDS (600) (cargo install --locked cargo-fuzz)
	@set -e; for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/corpus/$$target fuzz/seeds/$$target; \
		CUDA_PATH=$$(tools/cuda.sh find) RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir fuzz $$target \
			fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=$(or $(MGB_FUZZ_SECONDS),600) -max_len=4096 -print_final_stats=1; \
	done

loom: setup ### a model checker on the channel: every order of steps of a client and mgbd, at a cell and at a lease
	RUSTFLAGS="--cfg loom" $(CARGO) test --quiet --release --locked --package mgb-probe --lib \
		--target-dir $(or $(CARGO_TARGET_DIR),target)/loom -- wire::

# Debian's LLVM of the version that rustc has stands in for rustup's component llvm-tools.
coverage: build ### lines that unit tests and the crates' own integration tests run (cargo install --locked cargo-llvm-cov)
	CUDA_PATH=$$(tools/cuda.sh find) LLVM_COV=llvm-cov-22 LLVM_PROFDATA=llvm-profdata-22 \
		cargo llvm-cov $(CARGO_FLAGS) --exclude mgb-tests --summary-only

asan: build ### the conformance set with AddressSanitizer in programs, kernels and softgpu
	@tools/setup.sh libclang-rt-22-dev
	@tools/asan.sh $(or $(CARGO_TARGET_DIR),target)/asan $(STAGED)
	$(CARGO) test $(CARGO_FLAGS) --test asan -- --ignored --nocapture --test-threads=1

lit: build ### run the pass's tests on IR (lit and FileCheck)
	@tools/lit.sh $(STAGED)

lit-19: ### build the pass for LLVM 19, and run its tests with LLVM 19's tools
	@tools/setup.sh llvm-19-dev llvm-19 clang-19
	$(CARGO) build $(filter-out --workspace,$(CARGO_FLAGS)) --package mgb-pass --no-default-features --features llvm19 \
		--target-dir $(TARGET)/llvm19
	@MGB_PASS=$(abspath $(TARGET))/llvm19/release/libmgb_pass.so LLVM_PREFIX=/usr/lib/llvm-19 tools/lit.sh $(STAGED) pass

commits: ### check what CONTRIBUTING.md says of commits
	@tools/commits.sh

check: setup ## check formatting, clippy with warnings as errors, documentation
	cargo fmt --all --check
	$(CARGO) clippy $(CARGO_FLAGS) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(CARGO_FLAGS) --no-deps --document-private-items

conformance: build ### build the conformance set, plain and with MGB, in build/conformance/
	@tools/programs.sh $(STAGED) tests/conformance

benches: build ### build the benchmarks, plain and with MGB, in build/benches/
	@tools/programs.sh $(STAGED) benches

bench-table: ### write the table in BENCHMARKING.md from benches/results/
	tools/bench_table.py --write BENCHMARKING.md $(sort $(wildcard benches/results/*.json))

gain-picture: ### draw docs/gain.svg, the picture in README.md, from benches/results/
	tools/gain_picture.py --write docs/gain.svg $(sort $(wildcard benches/results/*.json))

libraries: build ### build the programs that use CUDA's libraries (as far as installed), plain and with MGB, in build/libraries/
	@tools/programs.sh $(STAGED) tests/libraries

random: build ### build the interpreter of random programs, plain and with MGB, in build/random/
	@tools/programs.sh $(STAGED) tests/random

matrix: build ### build the program of the matrix of arrangements, plain and with MGB, in build/matrix/
	@tools/programs.sh $(STAGED) tests/matrix

generated: build ### build generated sources with MGB in build/generated/ (40, and 25 that attack the pass); a bundle made later has them too
	@mkdir -p $(STAGED)/generated/src
	$(CARGO) run --quiet --release --package mgb-tests --example generate 1 40 $(STAGED)/generated/src
	$(CARGO) run --quiet --release --package mgb-tests --example generate -- --attack all 1 25 $(STAGED)/generated/src
	@$(MAKE) --no-print-directory --silent -C tests/generated -j$$(nproc) CXX=$(STAGED)/bin/mgb-clang++ \
		SOURCES=$(STAGED)/generated/src OUT=$(STAGED)/generated

twins: build ### build the conformance set, random programs and workloads with twins in build/twins/; a bundle made later has them too
	@for folder in tests/conformance tests/random benches; do \
		case $$folder in benches) level=-O2;; *) level=-O1;; esac; \
		CUDA_LIBRARIES=$$(readlink -f $(STAGED)/cuda) $(MAKE) --no-print-directory --silent -C $$folder -j$$(nproc) \
			OUT=$(STAGED)/twins/$$(basename $$folder) CXX=$(STAGED)/bin/mgb-clang++ CXXFLAGS="$$level --mgb-parts" || exit 1; done
	@for program in blocks chains; do $(STAGED)/bin/mgb-clang++ --offload-arch=sm_90 -O2 --mgb-parts \
		tests/tests/e2e/parts/$$program.cu -o $(STAGED)/twins/$$program || exit 1; done

bundle: examples conformance benches libraries random matrix ## pack dist/mgb-bundle/: everything to run the examples and trials on a machine with GPUs
	@tools/bundle.sh $(STAGED) dist/mgb-bundle

next: build ### build mgbd once more, as the next release that speaks the next version of the protocol: for trials of upgrades
	RUSTFLAGS="--cfg mgb_next_protocol" $(CARGO) build $(CARGO_FLAGS) --package mgb-scheduler --bin mgbd --target-dir target/next
	@mkdir -p $(STAGED)/next && cp target/next/release/mgbd $(STAGED)/next/mgbd

soak: build ### 10,000 programs on softgpu while mgbd, its holder, batches and programs are killed 500 times (make test: 16 times)
	MGB_SOAK_JOBS=10000 MGB_SOAK_KILLS=500 $(CARGO) test $(CARGO_FLAGS) --test e2e -- --nocapture soak::

systemd-test: examples ### mgbd under a real systemd, 100 starts and stops among others (root)
	tests/systemd/service.py --make-root

slurm-test: examples ### MGB under a real Slurm on three nodes in namespaces, set up as docs/SLURM.md says (root)
	tests/slurm/slurm.py --make-root

slurm-many: examples ### 200 jobs on these nodes under plain Slurm, under MGB with Slurm, and under one mgbd: time, failures, packing
	tests/slurm/many.py

slurm-vm: examples ### make slurm-test (or PARTS of it) in a virtual machine, whose kernel has control groups of the second version alone (root, qemu-system-x86)
	tests/slurm/slurm.py --root-only
	tests/vm/vm.py --make-root --put build/slurm-bookworm=/trial/debian $(foreach one,tests docs systemd $(addprefix build/,bin lib examples),--put $(one)=/mgb/$(one)) -- \
		/mgb/tests/slurm/slurm.py --root /trial/debian $(PARTS)

deny: ### licences, bans, sources and advisories of the dependencies (needs cargo-deny; fetches the advisories)
	@tools/deny.sh

support: setup ### write docs/SUPPORT.md from the catalogue, and the table in docs/SOFTGPU.md from the conformance set
	$(CARGO) run --quiet --release --package mgb-catalogue --example support >docs/SUPPORT.md.new
	@mv docs/SUPPORT.md.new docs/SUPPORT.md
	$(CARGO) run --quiet --release --package mgb-tests --example softgpu_table >docs/SOFTGPU.md.new
	@mv docs/SOFTGPU.md.new docs/SOFTGPU.md

clean: ## remove what was built; what set-up fetched into .cuda/ stays
	cargo clean
	rm -rf build dist
