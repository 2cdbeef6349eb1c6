# What people run here. `make` alone lists the targets. Everything that a target needs it installs or names.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo build deb web test test-cassandra check bench

# Cargo builds into ./target unless the environment says otherwise; the demo must find the binary there.
CARGO_TARGET_DIR ?= $(CURDIR)/target
export CARGO_TARGET_DIR
WEIR := $(CARGO_TARGET_DIR)/release/weir

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: build ## collect, keep and query generated flows, and see that none is lost
	@WEIR="$(WEIR)" bash demo/run.sh

build: ## build the release binary
	@bash .ci/packages build
	@echo "== build: weir, release profile (the query engine takes about 20 minutes on 2 cores the first time)"
	cargo build --release --package weir
	@echo "built $(WEIR)"

deb: build ## build the Debian package, beside the binary
	@packaging/deb/build "$(WEIR)" "$(CARGO_TARGET_DIR)/release"

web: ## build the pages with npm, so that the next build has them
	cd web && npm ci && npm run build
	touch crates/serve/src/pages.rs

test: ## install what tests compare with, then run every check and test
	@bash .ci/packages build test
	@bash .ci/test

test-cassandra: ## test the Cassandra adapter against real nodes, one and a ring of three
	@bash .ci/packages build test
	WEIR_REQUIRE_CASSANDRA=1 cargo test --package weir-cassandra

check: ## the house rules, rustfmt, clippy, licences
	@bash .ci/packages build
	cargo xtask check

bench: build ## measure, and say where the results go
	@if [ -x bench/run ]; then WEIR="$(WEIR)" bench/run; else \
	  echo "error: there is no bench/run in this checkout"; \
	  echo "hint: committed results, when there are any, lie in bench/runs"; exit 1; fi
