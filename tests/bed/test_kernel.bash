# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # said
#
# Tests scripts/bed/kernel. Sourced by run.

# Uses a copy of the scripts in which a series is supported that Debian does not have, as will be
# the case for 7.2 one day.
kernel_gone() {
	mkdir "$work/gone"
	cp -r scripts tests "$work/gone"
	sed -i 's/^SUPPORTED=.*/SUPPORTED="7.3 9.9"/' "$work/gone/scripts/cli.sh"
	run 1 "$work/gone/scripts/bed/kernel" 9.9
	says "Debian no longer has a 9.9 kernel" "+deb"
	# tests/matrix must not run anything before it finds out.
	run 1 "$work/gone/tests/matrix" --quick 7.3 9.9
	says "Debian no longer has a 9.9 kernel"
	[[ $said != *"running on"* ]]
}

kernel_default() {
	run 0 scripts/bed/kernel
	[[ ${said##*$'\n'} =~ ^[0-9]+\.[0-9]+\.[0-9]+.*-amd64$ ]]
}

check kernel/gone kernel_gone
check kernel/default kernel_default
