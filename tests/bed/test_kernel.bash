# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # said
#
# scripts/kernel. Sourced by run.

kernel_gone() {
	run 1 scripts/kernel 9.9
	says "has no 9.9 kernel" "+deb"
}

kernel_bad_name() {
	run 1 scripts/kernel seven
	says "is no name of a kernel"
}

kernel_default() {
	run 0 scripts/kernel
	[[ ${said##*$'\n'} =~ ^[0-9]+\.[0-9]+\.[0-9]+.*-amd64$ ]]
}

check kernel/gone kernel_gone
check kernel/bad-name kernel_bad_name
check kernel/default kernel_default
