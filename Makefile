# Everything a person or CI does here. Needs Rust, a C++20 compiler, make, and Python 3 with pip; never root.
# MLX_DIR, OPENBLAS_DIR and CMAKE name copies of your own, which are then not fetched.

PYTHON ?= python3
FETCH := $(PYTHON) scripts/fetch.py
MODEL ?= models/SmolLM2-135M-Instruct.Q4_1.gguf
TEST_PROFILE ?= dev
ARGS ?=
SEEDS ?= 1000
SECONDS ?= 60

# Tests that start Python start this one, with .deps/test/python in its path.
export PYTHON

.PHONY: help serve build test fuzz sim lint fmt bench bench-http bench-peers bench-tenants dist deps models test-deps lint-deps dist-deps deps-cuda
.DEFAULT_GOAL := help

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: models build ## serve the default model on 127.0.0.1:8080 (ARGS="--port 9000" passes flags, MODEL= another model)
	target/release/troupe serve --model $(MODEL) $(ARGS)

build: deps ## build target/release/troupe
	cargo build --release --locked

test: deps models test-deps ## run every test (TEST_PROFILE= another cargo profile)
	scripts/run-tests $(TEST_PROFILE)

fuzz: ## fuzz what reads the bytes of strangers (SECONDS= for each target, two at a time on two cores)
	scripts/fuzz $(SECONDS)

sim: ## run the scheduler's core through simulated workloads (SEEDS= how many)
	cargo run --release --locked -p troupe-sim -- $(SEEDS)

lint: deps lint-deps ## rustfmt, clippy, the layering rule, licences and sources of dependencies
	cargo fmt --all --check
	cargo fmt --manifest-path tests/fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(PYTHON) scripts/check-layering
	scripts/check-dependencies

fmt: ## format the code
	cargo fmt --all

bench: build models ## start a server, measure it, stop it (ARGS= flags of `troupe bench`)
	$(PYTHON) scripts/with-server $(MODEL) target/release/troupe bench --url URL $(ARGS)

bench-http: build models ## measure what the HTTP surface costs on a real server (ARGS= flags of the script)
	$(PYTHON) scripts/bench-http --model $(MODEL) $(ARGS)

bench-peers: build models ## measure beside llama.cpp and mlx-lm, which it fetches and builds (ARGS=--quick: one round)
	$(PYTHON) scripts/bench-peers --model $(MODEL) $(ARGS)

bench-tenants: build models ## measure what tenants do to each other on a real server (ARGS= flags of the script)
	$(PYTHON) scripts/bench-tenants --model $(MODEL) $(ARGS)

dist: build dist-deps ## a relocatable dist/troupe-VERSION-OS-ARCH.tar.gz
	$(PYTHON) scripts/dist.py

deps: ## fetch MLX, OpenBLAS, CMake and Ninja into .deps/
	@$(FETCH) deps

models: ## fetch the default model into models/
	@$(FETCH) models

test-deps: ## fetch what the tests compare against: chat templates, Python packages, clients
	@$(FETCH) test clients

lint-deps:
	@$(FETCH) lint

dist-deps:
	@$(FETCH) dist

deps-cuda: ## fetch the CUDA build of MLX into .deps/mlx-cuda/ (Linux, CUDA 13)
	@$(FETCH) cuda
