# penstock: `make demo` shows it, `make test` proves it, `make bench` measures it.
# Needs Rust, Python 3.11 and, for systems of the Hadoop family, Java 17 and Maven; the rest comes by itself.

PYTHON ?= python3
VENV   := $(CURDIR)/target/venv
PY     := $(VENV)/bin/python
PACKAGE := trainer-sidecar/python
TOOLS  ?= $(HOME)/.cache/penstock/tools
WHEEL_TOOLS  := $(CURDIR)/target/venv-wheel
# x86_64 or aarch64; built on either.
WHEEL_ARCH   ?= x86_64
WHEEL_TARGET := $(WHEEL_ARCH)-unknown-linux-gnu
WHEEL_NATIVE := $(CURDIR)/target/$(WHEEL_TARGET)/wheel
# Not written over: what runs from there keeps what it has.
INSTALL_NATIVES = install -D -t $(PACKAGE)/penstock/_native target/quick/penstock target/quick/libpenstock_tf.so
OLDEST  := $(CURDIR)/target/venv-oldest
TORCH   := $(CURDIR)/target/venv-torch
TORCH_TOOLS := { /usr/bin/python3 -c 'import torch, ensurepip' 2>/dev/null || \
	{ apt-get update --quiet --quiet && apt-get install --quiet --quiet --yes python3-torch python3-venv; }; } && \
	/usr/bin/python3 -m venv --system-site-packages $(TORCH) && $(TORCH)/bin/pip install --quiet --disable-pip-version-check pytest==9.2.0 pyarrow==18.1.0
NAME   ?=
SECONDS_EACH ?= 60

.PHONY: help demo demo-hdfs test test-rust test-python test-others test-oldest test-torch fuzz bench develop wheel build lint format licences clean

help:
	@echo 'make demo      train on digits and on flights, fed by penstock, and print the reports'
	@echo 'make demo-hdfs flights again, from a real HDFS that is started for it'
	@echo 'make test      every suite, with whatever it needs set up first'
	@echo 'make test-others  the package with the oldest TensorFlow, and with PyTorch, in environments of their own'
	@echo 'make fuzz      a minute of foreign bytes for every decoder of them; SECONDS_EACH=600 for more'
	@echo 'make bench     all benches beside their peers; NAME=flight for one'
	@echo 'make develop   build, and install the Python package into target/venv'
	@echo 'make wheel     the Python package for any Linux since 2014, into target/wheels; WHEEL_ARCH=aarch64 for that'
	@echo 'make lint      rustfmt, clippy, spelling; make licences for dependencies'

demo: develop
	$(PY) launcher/examples/digits/demo.py
	$(PY) launcher/examples/flights/demo.py
	$(PY) launcher/examples/flights/demo.py --tf1

# The flights again, from a real HDFS on this machine.
demo-hdfs: develop
	$(PY) launcher/examples/flights/demo.py --hdfs

# The package as a user has it: optimised binary and op library inside.
develop: $(VENV)/.ready
	cargo build --profile quick -p penstock -p penstock-tf-op
	$(INSTALL_NATIVES)

$(VENV)/.ready: tests/python/requirements.txt $(PACKAGE)/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r tests/python/requirements.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable $(PACKAGE)
	touch $@

# Zig links against the C library of 2014, glibc 2.17; a symbol of a later one would keep the wheel from loading there.
wheel: $(WHEEL_TOOLS)/.ready
	rustup target add $(WHEEL_TARGET)
	PATH="$(WHEEL_TOOLS)/bin:$$PATH" cargo zigbuild --profile wheel --target $(WHEEL_TARGET).2.17 -p penstock -p penstock-tf-op
	! readelf --version-info --wide $(addprefix $(WHEEL_NATIVE)/,penstock libpenstock_tf.so) | grep -oE 'GLIBC_2\.(1[89]|[2-9][0-9])'
	rm -rf $(PACKAGE)/build
	PENSTOCK_NATIVE=$(WHEEL_NATIVE) $(WHEEL_TOOLS)/bin/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--config-settings=--build-option=--plat-name=manylinux2014_$(WHEEL_ARCH) --wheel-dir target/wheels ./$(PACKAGE)
	ls -l target/wheels

$(WHEEL_TOOLS)/.ready:
	$(PYTHON) -m venv $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/pip install --quiet --disable-pip-version-check ziglang==0.17.1 cargo-zigbuild==0.24.1 setuptools==80.9.0
	touch $@

# Built as the tests are, so that nothing is built twice: the binary, the suites, and the op library.
build:
	cargo test --workspace --no-run
	cargo build -p penstock-tf-op

test: test-rust test-python

# PENSTOCK_PYTHON is how the suites find TensorFlow; without it they say loudly what they skip.
test-rust: $(VENV)/.ready build
	PENSTOCK_PYTHON=$(PY) PENSTOCK_NATIVE=$(CURDIR)/target/debug cargo test --workspace --no-fail-fast

test-python: $(VENV)/.ready build
	PENSTOCK_NATIVE=$(CURDIR)/target/debug $(PY) -m pytest -q tests/python

# Another gigabyte of packages: for whoever changes the package, and in CI.
test-others: test-oldest test-torch

test-oldest: $(OLDEST)/.ready $(VENV)/.ready build
	PENSTOCK_NATIVE=$(CURDIR)/target/debug PYTHONPATH=$(PACKAGE) $(OLDEST)/bin/python -m pytest -q \
		$(addprefix tests/python/test_,tensorflow.py tensorflow_path.py position.py ragged.py)
	PENSTOCK_NATIVE=$(CURDIR)/target/debug PENSTOCK_TF_OLDEST=$(OLDEST)/bin/python $(PY) -m pytest -q tests/python/test_wheel.py -k oldest

$(OLDEST)/.ready: tests/python/requirements-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check -r tests/python/requirements-oldest.txt
	touch $@

# Debian's, of the CPU alone: PyPI's brings CUDA along. Where it cannot be had, that is said.
test-torch: build
	@if $(TORCH_TOOLS); then \
		PENSTOCK_NATIVE=$(CURDIR)/target/debug PYTHONPATH=$(PACKAGE) $(TORCH)/bin/python -m pytest -q tests/python/test_torch.py; \
	else \
		echo '!!! NOT TESTED: PyTorch; apt-get install python3-torch python3-venv !!!'; \
	fi

# The same decoders get some thousand inputs in every `make test`.
fuzz:
	PENSTOCK_FUZZ_SECONDS=$(SECONDS_EACH) cargo test --workspace --lib fuzz_

# All that is measured is built at once: packages built by themselves would be built with other features, anew.
bench: $(VENV)/.ready
	@$(TORCH_TOOLS) || echo '!!! NO PEER FOR launch: PyTorch; apt-get install python3-torch python3-venv !!!'
	cargo build --profile quick -p penstock -p penstock-tf-op -p penstock-benches
	$(INSTALL_NATIVES)
	PENSTOCK_PYTHON=$(PY) PENSTOCK_NATIVE=$(CURDIR)/target/quick target/quick/penstock-benches $(NAME)

lint: $(VENV)/.ready
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(VENV)/bin/typos

format:
	cargo fmt --all

licences: $(TOOLS)/bin/cargo-deny
	$(TOOLS)/bin/cargo-deny --all-features --config .deny.toml check licenses bans sources

$(TOOLS)/bin/cargo-deny:
	cargo install cargo-deny --locked --version 0.20.2 --no-default-features --root $(TOOLS)

clean:
	cargo clean
