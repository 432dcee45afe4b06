# SPDX-License-Identifier: Apache-2.0
# Short names for what a person does here. The build itself is CMake's (CMakePresets.json); build/bin/kerf is the program.
JOBS ?= $(shell nproc)
CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-22 clang-format) clang-format-22)
DEMO := build/demo
SHELL := /bin/bash

.PHONY: build demo test sanitize format docs site wheel clean help setup

build: build/build.ninja ## set up this machine and build: build/bin/kerf, build/bin/kerf-opt
	cmake --build --preset release --parallel $(JOBS)

demo: build/build.ninja ## train an exported GPT-2 on 4 ranks, print the report and the losses next to PyTorch's
	cmake --build --preset release --parallel $(JOBS) --target kerf
	mkdir -p $(DEMO)
	build/bin/kerf train examples/gpt2/model.onnx --data examples/gpt2/batches.npz --ranks 4 --all-ranks --steps 20 \
	  --optimizer adamw --lr 1e-3 --weight-decay 0.01 --log $(DEMO)/losses.jsonl --save-plan $(DEMO)/plan.json
	python3 examples/gpt2/compare.py examples/gpt2/golden.json adamw $(DEMO)/losses.jsonl

test: build ## build and run every test; the last line is "N passed, N failed"
	scripts/test.sh build

sanitize: build-sanitize/build.ninja ## build with the address and undefined-behaviour sanitizers and run every test
	cmake --build --preset sanitize --parallel $(JOBS)
	scripts/test.sh build-sanitize

format: ## lay out all C++ sources with clang-format
	git ls-files '*.cpp' '*.h' | xargs $(CLANG_FORMAT) -i

docs: setup ## generate docs/operators.md, docs/passes.md and docs/messages-list.md from the sources
	scripts/generate-docs.sh docs

site: build ## build/site/html: the pages and the Python package's docstrings as a web site (fetches Sphinx)
	scripts/site.sh build

wheel: setup ## build-wheel/dist: a wheel of the Python package that needs no LLVM, MLIR or MPI (fetches scikit-build-core, auditwheel)
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) scripts/wheel.sh

clean: ## remove what was built
	rm -rf build build-debug build-python build-sanitize build-wheel

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' Makefile

setup:
	scripts/setup.sh

# Configuring happens once: after that ninja does it again by itself when a CMakeLists.txt changes.
build/build.ninja build-sanitize/build.ninja: CMakePresets.json | setup
	cmake --preset $(if $(findstring sanitize,$@),sanitize,release)
	@touch $@
