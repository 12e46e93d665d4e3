# SPDX-License-Identifier: GPL-2.0
#
# The front door. What the kernel build compiles stands in Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
export KDIR

# Which kernel `run` and `test` boot; empty: the newest stock series that is supported.
KERNEL ?=
# How long `run` shows its histograms, and on how many CPUs.
SECONDS ?= 10
CPUS ?= 4

build := $(CURDIR)/build
# The kernel's makefiles take tools from the command line alone, and have rustc twice.
tools := $(if $(RUSTC),RUSTC=$(RUSTC) HOSTRUSTC=$(RUSTC)) $(if $(BINDGEN),BINDGEN=$(BINDGEN))

# What a script that needs root advises.
export SCHEDHIST_COMMAND = $(strip make $(MAKECMDGOALS) $(MAKEOVERRIDES))

.PHONY: modules install uninstall clean run check test test-matrix bench lint fmt help

## modules    build schedhist.ko for the kernel in KDIR (default: the running one)
modules:
	@scripts/check-kdir "$$KDIR"
	@[ "$$(id -u)" != 0 ] || [ -O . ] || \
		{ echo "schedhist: run make as $$(stat -c %U .), who owns this tree" >&2; exit 1; }
	$(MAKE) -C $(KDIR) M=$(CURDIR) MO=$(build) $(tools) modules
	@cp $(build)/schedhist.ko .

## install    install the module for modprobe (KDIR=); builds it first, if need be
#             SIGN_KEY=FILE and SIGN_CERT=FILE sign it; INSTALL_MOD_PATH=FOLDER is another root
install:
	@scripts/install "$$KDIR"

## uninstall  remove what `make install` installed (KDIR=, INSTALL_MOD_PATH=)
uninstall:
	@scripts/install --remove "$$KDIR"

## run        show live histograms of a stock kernel in a virtual machine (KERNEL=, CPUS=, SECONDS=)
run:
	@scripts/demo $(if $(KERNEL),--kernel $(KERNEL)) --cpus $(CPUS) $(SECONDS)

## check      run the tests that find most in a few minutes, after each change (KERNEL=)
check:
	@tests/run --quick $(if $(KERNEL),--kernel $(KERNEL))

## test       run all tests (KERNEL=); ends with "N passed, N failed, N skipped"
test:
	@tests/run $(if $(KERNEL),--kernel $(KERNEL))

## test-matrix  all tests in guests, on all kernels, stock and our own; ends with a table (KERNELS=)
#              Before that, unless kernels are named, all of the engine's tests under sanitizers.
test-matrix:
	$(if $(KERNELS),,@scripts/root -- tests/engine/run sanitize all)
	@tests/matrix $(KERNELS)

## bench      what schedhist costs, beside its peers, and whether that is within the budget (KERNEL=)
bench:
	@tests/bench/all $(if $(KERNEL),--kernel $(KERNEL))

## lint       rustfmt, clippy with the kernel's lints, checkpatch, shellcheck
lint:
	@scripts/lint

## fmt        format the Rust sources
fmt:
	@scripts/lint --fix

## clean      remove what the build left in the tree; the cache stays
clean:
	rm -rf build schedhist.ko

## help       this text
help:
	@sed -n 's/^## /make /p; s/^#  /      /p' $(firstword $(MAKEFILE_LIST))
