# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# unreclaimable: prints the kernel's unreclaimable memory in bytes: allocations of drivers and the
# like, and modules themselves. Sourced by tests of memory.
unreclaimable() {
	# Otherwise each CPU keeps some of the count to itself.
	echo 1 > /proc/sys/vm/stat_refresh
	awk '$1 == "SUnreclaim:" || $1 == "VmallocUsed:" || $1 == "Percpu:" { sum += $2 }
		END { print sum * 1024 }' /proc/meminfo
}
