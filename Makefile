# Everything a contributor runs. `make help` lists it.

PYTHON ?= python3
VENV := .venv
# What is imported is compiled once: the packages of the tests come uncompiled.
unexport PYTHONDONTWRITEBYTECODE
# Of make's jobs, which it could not take one of, Cargo is not told; nor is what starts Cargo, or a make of its own.
CARGO := env -u MAKEFLAGS -u MFLAGS cargo

.DEFAULT_GOAL := help
.PHONY: help build demo test rust test-rust test-python browser package lint lint-python fmt audit bench accuracy accuracy-doc fuzz readme api docs clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

# Both packages are named so that their dependencies get the same features for the command as for the extension: with different
# ones, `package` would compile all our crates a second time. Only the command is built, and Python is not needed for it.
build: ## Build the command: target/release/brimful
	$(CARGO) build --release -p brimful -p brimful-python --bin brimful

demo: package ## The story of a job that does not fit: planned, run, explained, and trained to the end (under three minutes)
	$(VENV)/bin/python tools/demo.py

# What is compiled once gains nothing from being kept in pieces for the next time: a third of its compiling would go into that.
# Side by side, since each of the two has much that only one core works on, or none, and packages are fetched meanwhile. Their words would mix:
# each says all when it is done.
test: export CARGO_INCREMENTAL := 0
test: ## Everything that CI runs
	@echo "Rust and Python are tested side by side: the output of each comes when it is done, in 10 to 25 minutes."
	$(MAKE) --no-print-directory --jobs=3 --output-sync=target rust test-python

# `lint` and `test-rust` in one: Clippy compiles what it looks at, so that it need not be compiled a second time for the tests. `cargo clippy`
# hands it its arguments in the same form.
rust: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
rust: export CLIPPY_ARGS := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
rust:
	cargo fmt --all --check
	$(CARGO) test --workspace --all-targets --no-run
	$(CARGO) test --workspace

test-rust: ## Unit tests, property tests, snapshots, transcripts of the command
	$(CARGO) test --workspace

test-python: build package lint-python browser ## End-to-end tests against real frameworks, in a virtual environment of their own
	env -u MAKEFLAGS -u MFLAGS $(VENV)/bin/python -m pytest tests -n 2 --dist loadfile --no-loadscope-reorder

# The pages are tested in a real browser; where none can be had, those tests are skipped by name, and nothing fails.
browser: ## Install Chromium for the tests of pages, where that is allowed
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name >/dev/null && exit 0; done; \
	{ [ "$$(id -u)" = 0 ] && apt-get install -y --no-install-recommends chromium >/dev/null 2>&1; } || \
	echo "no Chromium here: the tests of pages will be skipped"

# In the environment of the tests, which has what builds it; the compiled crates are those of `build`.
package: $(VENV)/ready ## Build the Python package and install it into .venv
	env -u MAKEFLAGS -u MFLAGS PATH="$(abspath $(VENV))/bin:$$PATH" CARGO_TARGET_DIR=target $(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --force-reinstall .

# Made anew when the requirements change, and only then. uv unpacks the 7 GB of the frameworks in a minute, pip in three; where only pip
# knows the way to the packages (its own configuration), it is asked.
$(VENV)/ready: tests/requirements.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade pip uv
	$(VENV)/bin/uv pip install --quiet --system-certs --python $(VENV)/bin/python -r tests/requirements.txt || \
	$(VENV)/bin/python -m pip install --quiet -r tests/requirements.txt
	touch $@

lint: ## Formatting and lints, warnings denied
	cargo fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

lint-python: $(VENV)/ready ## The same for Python
	$(VENV)/bin/ruff check python tools tests examples benches
	$(VENV)/bin/ruff format --check python tools tests examples benches

fmt: $(VENV)/ready ## Format the code
	cargo fmt --all
	$(VENV)/bin/ruff check --fix --quiet python tools tests examples benches
	$(VENV)/bin/ruff format --quiet python tools tests examples benches

# Licences of what is compiled in are also checked by `make test`; this asks for known holes, too, and needs the network.
audit: $(VENV)/ready package ## Licences and known holes of all dependencies (needs cargo-deny)
	@command -v cargo-deny >/dev/null || { echo "error: no cargo-deny here: cargo install cargo-deny --locked"; exit 2; }
	cargo deny check
	$(VENV)/bin/python tools/check_licences.py
	$(PYTHON) -m venv target/audit
	target/audit/bin/python -m pip install --quiet pip-audit
	target/audit/bin/pip-audit --progress-spinner off --path $(VENV)/lib/python3.*/site-packages

bench: package ## Time the parts that must be fast
	cargo bench --workspace
	$(VENV)/bin/python tools/bench_explain.py
	$(VENV)/bin/python tools/bench_torch_plan.py
	$(VENV)/bin/python tools/bench_torch_step.py
	for backend in tensorflow jax torch; do KERAS_BACKEND=$$backend $(VENV)/bin/python tools/bench_keras_fit.py || exit 1; done

accuracy: build package ## Compare predictions with measured runs
	target/release/brimful accuracy
	$(VENV)/bin/python tools/torch_accuracy.py

accuracy-doc: build package ## Write that comparison into docs/ and its summary into the README
	sed '/^<!-- accuracy:begin/q' docs/accuracy.md > target/accuracy.md
	target/release/brimful accuracy >> target/accuracy.md
	mv target/accuracy.md docs/accuracy.md
	grep ' rows above ' docs/accuracy.md | sed 's/^/- /' > target/summary.md
	sed -i '/<!-- accuracy:begin/,/<!-- accuracy:end/{//!d}' README.md
	sed -i '/<!-- accuracy:begin/r target/summary.md' README.md
	sed '/^<!-- accuracy:begin/q' docs/accuracy_torch.md > target/accuracy.md
	(echo '```text'; $(VENV)/bin/python tools/torch_accuracy.py --rows; echo '```') >> target/accuracy.md
	mv target/accuracy.md docs/accuracy_torch.md

fuzz: ## Feed the importers and explain broken files for a minute each (needs cargo-fuzz and a nightly toolchain)
	mkdir -p fuzz/corpus/keras_json fuzz/corpus/keras_archive fuzz/corpus/keras_hdf5 fuzz/corpus/torch_snapshot fuzz/corpus/explain
	cp fixtures/models/keras_extra/*.json fuzz/corpus/keras_json
	cp fixtures/models/keras_extra/*.keras fuzz/corpus/keras_archive
	cp fixtures/models/keras_hdf5/*.h5 fuzz/corpus/keras_hdf5
	cp fixtures/snapshots/*.pickle fuzz/corpus/torch_snapshot
	find fixtures/logs -name '*.log' -size -8k -exec cp {} fuzz/corpus/explain \;
	cd fuzz && for target in $$(cargo +nightly fuzz list); do \
	cargo +nightly fuzz run $$target -- -max_total_time=60 -rss_limit_mb=1024 -timeout=10 || exit 1; done

readme: ## Write the output of the command into the README, docs/snapshot.md and docs/explain.md again
	BRIMFUL_UPDATE_README=1 cargo test -p brimful --test readme --test snapshot --test explain

api: ## Write docs/api.md, the reference of the Python package, from its docstrings
	$(PYTHON) tools/make_api_docs.py

docs: ## Build the documentation of the code, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

clean: ## Remove what was built
	cargo clean
	rm -rf $(VENV)
