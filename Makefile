# What to type. Everything fetched or built once for all clones lies in $(DDP_CACHE); this folder's own in build/.
#   PRESET=release|dev|ci|asan-ubsan|tsan|cuda   how to compile (CMakePresets.json)
#   JOBS=2                                       how much at once
PRESET ?= release
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)
INSTALL := $(BUILD)/install
export DDP_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ddp

# One compiler cache for all clones: paths are taken relative to the clone.
export CCACHE_DIR := $(DDP_CACHE)/ccache
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CCACHE_SLOPPINESS := time_macros,pch_defines
export CCACHE_MAXSIZE := 5G

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
FETCH := cmake/fetch.sh
NINJA := ninja -C $(BUILD) -j $(JOBS)
CTEST := ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error
BENCH_PROGRAMS := allreduce_bench checkpoint_bench step_bench telemetry_bench
SHELL_SCRIPTS = $(shell git grep -lIE '^\#!/usr/bin/env bash' 2>/dev/null)
CXX_FILES = $(shell git ls-files '*.h' '*.cc' '*.cu' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help deps build demo test e2e pictures images images-cuda install lint format tidy sanitize cuda fuzz soak bench bench-operator nightly clean

help:  ## show this
	@echo 'make TARGET [PRESET=$(PRESET)] [JOBS=$(JOBS)]'
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

deps:  ## fetch what compiling needs: Debian packages, libtorch, the digits, a text
	@$(FETCH) packages build
	@$(FETCH) torch
	@$(FETCH) digits
	@$(FETCH) text

build: configure  ## compile everything
	@$(NINJA)

demo: configure  ## train handwritten digits with two ranks on this machine
	@$(NINJA) kubectl-ddp ddp-worker
	@$(BUILD)/bin/kubectl-ddp run -f manifests/samples/mnist.yaml

test: build testbed  ## run every test that needs no node: unit, fault, integration with a real API server
	@$(CTEST) -L '^(unit|fault|integration)$$'

e2e: install testbed  ## run the end-to-end tests on a real cluster with a node (needs root)
	@$(FETCH) packages node
	@tests/testbed/build.sh coredns >/dev/null
	@tests/e2e/run.py --build $(BUILD)

pictures: install testbed  ## the end-to-end tests, and pictures of the dashboards for docs/ from what Prometheus saw in them
	@$(FETCH) packages node
	@$(FETCH) pictures
	@tests/testbed/build.sh coredns >/dev/null
	@tests/e2e/run.py --build $(BUILD) --only chart --pictures docs/dashboards

images: install  ## build the container images from docker/, as archives
	@$(FETCH) packages node
	@INSTALL_TREE=$(INSTALL) tests/testbed/images.sh operator runtime

images-cuda: cuda  ## the same for the runtime with CUDA and NCCL
	@$(FETCH) packages node
	@$(FETCH) torch-cuda
	@cmake --install build/cuda --strip >/dev/null
	@INSTALL_TREE=build/cuda/install tests/testbed/images.sh runtime-cuda

install: configure  ## build/PRESET/install: the programs as they are shipped
	@$(NINJA) ddp-operator kubectl-ddp ddp-worker
	@cmake --install $(BUILD) --strip >/dev/null

lint:  ## check format, layers and scripts
	@$(FETCH) packages lint
	@clang-format --dry-run --Werror $(CXX_FILES)
	@python3 tests/layers/layers.py .
	@shellcheck -x -a $(SHELL_SCRIPTS)

format:  ## format all C++ files
	@$(FETCH) packages lint
	@clang-format -i $(CXX_FILES)

tidy: configure  ## clang-tidy on what changed since main; ALL=1 on everything
	@$(FETCH) packages lint
	@tests/lint/tidy.sh $(BUILD) $(JOBS) $(if $(ALL),--all)

sanitize: deps  ## run the tests of the concurrent layers under the address, undefined-behaviour and thread sanitizers
	@tests/lint/sanitize.sh $(JOBS)

fuzz:  ## fuzz every parser with libFuzzer for MINUTES (10)
	@$(FETCH) packages build fuzz
	@$(FETCH) torch
	@tests/fuzz/run.sh $(or $(MINUTES),10) $(JOBS)

soak: build testbed  ## 200 random schedules and leader kills each and 10,000 jobs (CHAOS=0: none), then repeat the fault tests for MINUTES (30)
	@tests/fault/soak.sh $(BUILD) $(or $(MINUTES),30)

bench: configure  ## compare the runtime with PyTorch DDP over Gloo: build/bench/runtime.json (SUITES="allreduce ...")
	@$(FETCH) peer
	@$(NINJA) $(BENCH_PROGRAMS)
	@tests/bench/bench.py --build $(BUILD) $(SUITES)

bench-operator: configure testbed  ## measure the operator beside Kubernetes' Job controller: build/bench/operator.json
	@$(NINJA) ddp-operator
	@python3 tests/bench/bench_operator.py --operator $(BUILD)/bin/ddp-operator $(if $(ONLY),--only $(ONLY))

nightly:  ## everything that takes long: clang-tidy on all files, sanitizers, fuzz and soak for MINUTES (60) each
	@$(MAKE) tidy ALL=1
	@$(MAKE) sanitize
	@$(MAKE) fuzz soak MINUTES=$(or $(MINUTES),60)
	@$(FETCH) peer
	@tests/nightly/pytorch_sample.sh $(BUILD)
	@tests/queue/kueue_test.sh $(BUILD)/bin/ddp-operator
	@$(MAKE) install
	@cmake --install $(BUILD) --component sdk --prefix $(BUILD)/sdk >/dev/null
	@tests/e2e/run.py --build $(BUILD) --nightly

cuda:  ## compile and link the CUDA build; its tests run where there is a GPU, and are skipped visibly elsewhere
	@$(MAKE) deps
	@$(FETCH) cuda
	@[ -f build/cuda/build.ninja ] || cmake --preset cuda --log-level=WARNING $(if $(filter ci,$(PRESET)),-DDDP_WERROR=ON)
	@ninja -C build/cuda -j $(JOBS) ddp-worker runtime_comm_gpu_test runtime_comm_gpu2_test runtime_comm_no_gpu_test
	@ctest --test-dir build/cuda --output-on-failure --no-tests=error -R 'Gpu|Cuda'

clean:  ## remove build/ (the cache in DDP_CACHE stays)
	@rm -rf build

# ---- steps that people do not ask for by name ------------------------------------------------------------------

.PHONY: configure testbed
configure: deps
	@[ -f $(BUILD)/build.ninja ] || cmake --preset $(PRESET) --log-level=WARNING

testbed:
	@$(FETCH) packages test browser
	@$(FETCH) safetensors
	@for program in kube helm helm-docs dashboard-check crd-reference prometheus-crds; do tests/testbed/build.sh $$program >/dev/null; done
