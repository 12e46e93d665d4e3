# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How the parts of the benchmark begin that count instructions: they take no arguments. To be sourced; goes to
# the top of the tree.

# shellcheck source=scripts/cli.sh
. "${BASH_SOURCE[0]%/*}/../../scripts/cli.sh"
no_arguments "$@"
[[ -z ${KERNEL:-} ]] || check_kernel_name "$KERNEL"
need_root
cd "${BASH_SOURCE[0]%/*}/../.." || exit
# shellcheck source=tests/bench/figures.bash
. tests/bench/figures.bash

# guest OPTION... -- COMMAND...: runs COMMAND in a guest whose clock counts instructions, with the
# kernel KERNEL. The figures do not depend on the load of the machine, but the time that they take
# does, so the guest may run for hours.
guest() { scripts/bed/vm ${KERNEL:+--kernel "$KERNEL"} --icount --timeout 10800 "$@"; }
