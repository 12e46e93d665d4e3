# SPDX-License-Identifier: GPL-2.0
#
# Commands for users and developers. The rules for the kernel build are in Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
export KDIR

# The kernel that `run` and `test` boot. If empty, the newest supported stock series.
KERNEL ?=
# The duration of `run`, in seconds, and the number of its CPUs.
SECONDS ?= 10
CPUS ?= 4

build := $(CURDIR)/build
# The copy of the sources that the kernel build compiles: see scripts/crates/stage.
staged := $(build)/module
# The kernel's makefiles take tools from the command line only, and use rustc under two names.
tools := $(if $(RUSTC),RUSTC=$(RUSTC) HOSTRUSTC=$(RUSTC)) $(if $(BINDGEN),BINDGEN=$(BINDGEN))

# The command that a script tells the user to repeat as root.
export SCHEDHIST_COMMAND = $(strip make $(MAKECMDGOALS) $(MAKEOVERRIDES))

# Files of root in another user's tree would keep that user from building again.
as_owner = [ "$$(id -u)" != 0 ] || [ -O . ] || \
	{ echo "schedhist: run make as $$(stat -c %U .), who owns this tree" >&2; exit 1; }

TOOL_TARGET := $(build)/tools-target

.PHONY: modules tools install uninstall deb clean run check test test-matrix test-next test-report test-packages bench lint fmt help

## modules    build schedhist.ko for the kernel in KDIR (default: the running one)
modules:
	@scripts/check-kdir "$$KDIR"
	@$(as_owner)
# As old as the oldest that this build reads, for scripts/install: what make need not build anew keeps its time.
	@mkdir -p $(staged) && touch $(staged)/.started
	@scripts/crates/stage $(CURDIR) $(staged) $(KDIR)
	$(MAKE) -C $(KDIR) M=$(staged) $(tools) modules
	@cp $(staged)/schedhist.ko . && mv $(staged)/.started $(staged)/.made

## tools      build the command schedhist, its manual pages and completions, in build/tools
#             Needs cargo 1.85 or later, which fetches the crates that tools/schedhist/*/Cargo.toml name.
CARGO ?= cargo
# Of the machine that runs make. cargo is told it by name: see tools/schedhist/.cargo/config.toml.
TOOL_MACHINE := $(shell uname -m)-unknown-linux-gnu
tools:
	@$(as_owner)
	@mkdir -p $(build)/tools/man $(build)/tools/completions
	cd tools/schedhist && $(CARGO) build --quiet --release --locked --target $(TOOL_MACHINE) --target-dir $(TOOL_TARGET)
	@cp $(TOOL_TARGET)/$(TOOL_MACHINE)/release/schedhist $(build)/tools/
	@$(build)/tools/schedhist man $(build)/tools/man
	@for shell in bash zsh fish; do \
		$(build)/tools/schedhist completions $$shell > $(build)/tools/completions/schedhist.$$shell || exit; \
	done

## install    install the module for modprobe (KDIR=); builds it first if necessary
#             SIGN_KEY=FILE and SIGN_CERT=FILE sign it; INSTALL_MOD_PATH=FOLDER is another root
#             Also installs the command below PREFIX (/usr/local), if `make tools` has built it.
install:
	@scripts/install "$$KDIR"
	@scripts/install-tools

## uninstall  remove what `make install` installed (KDIR=, INSTALL_MOD_PATH=, PREFIX=)
uninstall:
	@scripts/install --remove "$$KDIR"
	@scripts/install-tools --remove

## deb        build the Debian packages schedhist and schedhist-dkms, in build/deb
deb:
	@scripts/deb

## run        show what the command prints about a workload, in a guest (KERNEL=, CPUS=, SECONDS=)
run:
	@scripts/demo $(if $(KERNEL),--kernel $(KERNEL)) --cpus $(CPUS) $(SECONDS)

## check      run the tests that find most bugs in a few minutes, after each change (KERNEL=)
check:
	@tests/run --quick $(if $(KERNEL),--kernel $(KERNEL))

## test       run all tests (KERNEL=); ends with "N passed, N failed, N skipped"
test:
	@tests/run $(if $(KERNEL),--kernel $(KERNEL))

## test-matrix  run all guest tests on all kernels, stock and our own; ends with a table (KERNELS=)
#              Unless KERNELS= is given, first tests what of the test bed takes long.
test-matrix:
	$(if $(KERNELS),,@tests/bed/run arm64 next)
	@tests/matrix $(KERNELS)

## test-next   build for the kernel that Debian experimental or TREE= has, and say what broke
test-next:
	@tests/next $(TREE)

## test-report    look at pages of the command with Debian's Chromium (600 MB)
test-report:
	@tests/report/run

## test-packages  test the Debian packages: fresh installations, upgrades, interruptions, removal
test-packages:
	@tests/packages/run --whole

## bench      measure the cost of schedhist and its peers, and compare it with the budget (KERNEL=)
bench:
	@tests/bench/all $(if $(KERNEL),--kernel $(KERNEL))

## lint       run rustfmt, clippy with the kernel's lints, checkpatch, shellcheck
lint:
	@scripts/bed/lint

## fmt        format the Rust sources
fmt:
	@scripts/bed/lint --fix

## clean      remove build output from the tree; the cache stays
clean:
	rm -rf build schedhist.ko

## help       show this text
help:
	@sed -n 's/^## /make /p; s/^#  /      /p' $(firstword $(MAKEFILE_LIST))
