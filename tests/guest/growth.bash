# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
#
# What is left of the kernel's memory by loading and unloading, over and over. Sourced by tests.

# In KiB, of the kinds that a module takes.
kernel_memory() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
	awk '/^(Slab|VmallocUsed|Percpu):/ { sum += $2; printf "%s %d ", $1, $2 }
		END { printf "sum %d\n", sum }' /proc/meminfo
}

# assert_no_growth BEFORE AFTER CYCLES: between what kernel_memory said. It goes up and down by 1 MiB or so,
# however many cycles there were. With KASAN what is freed stays for a while: there kmemleak tells.
assert_no_growth() {
	local growth=$((${2##* } - ${1##* })) allowed=2048
	[[ $ours != debug ]] || allowed=$((allowed + 64 * $3))
	note "the kernel's memory has grown by $growth KiB in $3 cycles"
	within "growth of the kernel's memory" -1000000 "$growth" "$allowed"
}
