# SPDX-License-Identifier: Apache-2.0 OR MIT
# make demo   see what it does, in two minutes       make test    every test but the long ones
# make test-kernels  under Debian 13's kernel and the newest, in virtual machines
# make test-clang    every program as Debian 13's clang compiles it
# make bench  speed, as ratios to peers              make lint    format, lints, licences
# make install, uninstall   what make build left     make deb     a Debian package of it
#
# Root and BPF are needed where packets are involved: on a machine without them the tests
# say what they lack; under CI=true they fail instead.

CARGO ?= cargo
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

BUILD_PACKAGES := clang libclang-dev gcc make pkg-config libelf-dev zlib1g-dev libc6-dev iproute2
DEB_PACKAGES := dpkg-dev python3
TEST_PACKAGES := apache2-bin chromium clang-format curl ethtool fonts-dejavu-core fonts-liberation haproxy lighttpd nftables nghttp2-client nginx-light procps python3-prometheus-client systemd util-linux wrk $(DEB_PACKAGES)
BENCH_PACKAGES := httperf
# Since Debian 13 the file server is a package of its own.
KERNEL_PACKAGES = kmod qemu-system-x86 $(shell apt-cache show virtiofsd >/dev/null 2>&1 && echo virtiofsd)
# Debian 13's clang, which Debian 12 has, too. (CLANG=... names one for any build.)
NEWER_CLANG := clang-19
CARGO_DENY_VERSION := 0.20.2

# Where cargo leaves what it builds.
BUILT := $(or $(CARGO_TARGET_DIR),target)

# Where make install puts things; DESTDIR is for packages.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=
TIDEGATE ?= $(BUILT)/release/tidegate
BIN := $(DESTDIR)$(PREFIX)/bin
DOC := $(DESTDIR)$(PREFIX)/share/doc/tidegate
UNITS := $(DESTDIR)$(PREFIX)/lib/systemd/system
CONFIGURATION := $(DESTDIR)$(SYSCONFDIR)/tidegate
UNIT_FILES := $(notdir $(wildcard packaging/*.service))

.PHONY: all build demo install uninstall deb test test-clang test-kernels test-long bench lint setup setup-test setup-lint clean

all: build

# Installs what is missing, and asks the package manager only then.
define install
	@missing=""; for p in $(1); do \
		dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; \
	done; \
	if [ -n "$$missing" ]; then \
		echo "installing$$missing"; \
		$(SUDO) apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
endef

setup:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust by rustup; rust-toolchain.toml names the version"; exit 1; }
	$(call install,$(BUILD_PACKAGES))

setup-test: setup
	$(call install,$(TEST_PACKAGES))

setup-lint: setup-test
	@command -v cargo-deny >/dev/null || $(CARGO) install cargo-deny --version $(CARGO_DENY_VERSION) --locked --quiet
	@# cargo-deny reads every crate of Cargo.lock, those of other systems too, which no build fetches.
	@$(CARGO) fetch --locked --quiet

build: setup
	$(CARGO) build --release --locked -p tidegate -p tidelab

# Who may not use sudo is shown the same, simulated.
demo: build
	@sudo="$(SUDO)"; \
	if [ -n "$$sudo" ] && ! $$sudo -n true 2>/dev/null && ! $$sudo -v; then sudo=""; fi; \
	$$sudo $(BUILT)/release/tidelab demo

# Builds nothing: root may have no cargo.
install:
	@test -x $(TIDEGATE) || { echo "$(TIDEGATE) is missing: make build makes it"; exit 1; }
	install -d $(BIN) $(DOC) $(UNITS) $(CONFIGURATION)
	install -s -m 755 $(TIDEGATE) $(BIN)/tidegate
	install -m 644 docs/* LICENSES/* README.md ARCHITECTURE.md CHANGELOG.md $(DOC)
	@# There all of them lie in one folder.
	sed -i 's,](docs/,](,g' $(addprefix $(DOC)/,README.md ARCHITECTURE.md CHANGELOG.md)
	@for unit in $(UNIT_FILES); do \
		echo "$(UNITS)/$$unit"; \
		sed 's,/usr/,$(PREFIX)/,; s,/etc/,$(SYSCONFDIR)/,' packaging/$$unit >$(UNITS)/$$unit; \
		chmod 644 $(UNITS)/$$unit; \
	done
	@for file in $(notdir $(wildcard packaging/*.toml)); do \
		if [ -e $(CONFIGURATION)/$$file ]; then echo "kept $(CONFIGURATION)/$$file"; \
		else install -m 644 packaging/$$file $(CONFIGURATION); fi; \
	done

# What an operator has configured stays.
uninstall:
	rm -rf $(BIN)/tidegate $(DOC) $(addprefix $(UNITS)/,$(UNIT_FILES))

deb: build
	$(call install,$(DEB_PACKAGES))
	packaging/deb/build $(TIDEGATE) $(BUILT)

# All packages are selected in every line: with others, cargo would choose other features for what
# they share, and build it anew. Of the whole stories those that measure are told one at a time.
TEST_ALL := $(CARGO) test --workspace --locked
TEST_WHOLE := $(TEST_ALL) --test whole
# All others share nothing, and wait more than they work: four at a time, on fewer processors, too; of
# the whole stories six.
TEST_THREADS := $(shell n=$$(nproc); echo $$(( n > 4 ? n : 4 )))
STORY_THREADS := $(shell n=$$(nproc); echo $$(( n > 6 ? n : 6 )))

test: setup-test
	$(CARGO) build --workspace --locked --all-targets
	$(TEST_ALL) -- --test-threads=$(TEST_THREADS)
	$(TEST_WHOLE) beside:: -- --test-threads=$(STORY_THREADS)
	$(TEST_WHOLE) alone:: -- --test-threads=1

# In a folder of its own: a build with another compiler is another build.
TEST_CLANG := env CLANG=$(NEWER_CLANG) CARGO_TARGET_DIR=target/$(NEWER_CLANG) $(CARGO) test --locked -p tidegate-datapath --test kernel

test-clang: setup-test
	$(call install,$(NEWER_CLANG))
	$(TEST_CLANG)

# Under other kernels, in virtual machines.
test-kernels: setup-test
	$(call install,$(KERNEL_PACKAGES) $(NEWER_CLANG))
	$(CARGO) build --workspace --locked --all-targets
	@SUDO=$(SUDO) tests/kernels/run $(TEST_CLANG) --no-run

test-long: test test-clang test-kernels
	$(TEST_ALL) -- --ignored --test-threads=1
	$(TEST_WHOLE) -- --ignored --test-threads=1
	$(CARGO) test --locked -p tidegate-report -p tidelab --features tidelab/parquet --lib --test sweep

bench: setup-test
	$(call install,$(BENCH_PACKAGES))
	$(CARGO) build --release --locked -p tidegate -p tidelab -p tidegate-benches
	@$(SUDO) $(BUILT)/release/bench

lint: setup-lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --workspace --test whole --locked -- -D warnings
	$(CARGO) clippy -p tidegate-report -p tidelab --features tidelab/parquet --all-targets --locked -- -D warnings
	clang-format --dry-run --Werror policy/native.c policy/include/*.h datapath/bpf/*.h datapath/bpf/*.c servers/bpf/*.c crowd/bpf/*.h crowd/bpf/*.c benches/bpf/*.c
	$(CARGO) deny --locked --offline check licenses bans sources

clean:
	$(CARGO) clean
