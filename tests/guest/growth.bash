# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
#
# Measures the kernel memory that loading and unloading, over and over, leaves behind. Sourced by
# tests.

# Prints the kernel's memory in KiB, for the kinds that a module uses.
kernel_memory() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
	awk '/^(Slab|VmallocUsed|Percpu):/ { sum += $2; printf "%s %d ", $1, $2 }
		END { printf "sum %d\n", sum }' /proc/meminfo
}

# assert_no_growth BEFORE AFTER CYCLES: compares two outputs of kernel_memory. The sum varies by 1
# MiB or so, regardless of the number of cycles. KASAN keeps freed memory for a while: there
# kmemleak finds the leaks, on the kernel debug.
assert_no_growth() {
	local growth=$((${2##* } - ${1##* })) allowed=2048
	! grep -q " kasan_report$" /proc/kallsyms || allowed=$((allowed + 64 * $3))
	note "the kernel's memory has grown by $growth KiB in $3 cycles"
	within "growth of the kernel's memory" -1000000 "$growth" "$allowed"
}
