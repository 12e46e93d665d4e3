# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Creates build/bench, the directory of the figures, and gives it to the tree's owner at the end: a
# user could not remove files that root leaves in the tree. Sourced at the top of the tree.

# Parts that run at once may rename files during this; the caller that started them repeats it.
give_figures() {
	chown -fh --reference=. build || :
	chown -fhR --reference=. build/bench || :
}

# guest OPTION... -- COMMAND...: runs COMMAND in a guest whose clock counts instructions, with the
# kernel KERNEL. The figures do not depend on the load of the machine, but the time that they take
# does, so the guest may run for hours.
guest() { scripts/bed/vm ${KERNEL:+--kernel "$KERNEL"} --icount --timeout 10800 "$@"; }

mkdir -p build/bench
trap give_figures EXIT
