# Thin: each target prepares the machine, builds what it needs and hands over. CMakePresets.json has the rest.
.DEFAULT_GOAL := build
.PHONY: setup configure build quickstart test bench clean

JOBS ?= $(shell nproc)
BUILD := build/release
ARGS ?=

setup:
	@mkdir -p $(BUILD)
	@deploy/setup/setup.sh > $(BUILD)/python_path

configure: setup
	@cmake --preset release -DHONE_PYTHON=$$(tail -n 1 $(BUILD)/python_path) > $(BUILD)/configure.log 2>&1 \
	  || { cat $(BUILD)/configure.log; exit 1; }

build: configure
	@cmake --build $(BUILD) --parallel $(JOBS) --target programs

quickstart: build
	@$(BUILD)/bin/hone quickstart $(ARGS)

test: configure
	@cmake --build $(BUILD) --parallel $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error --parallel $$((2 * $(JOBS)))

bench: build
	@cmake --build $(BUILD) --parallel $(JOBS)
	@bench/run.sh $(BUILD)

clean:
	@rm -rf build
