# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2120,SC2154
#
# What the tests against independent references share. Sourced by them.

# With all metrics, also those that are off unless asked for.
load_all() { load metrics=all "$@"; }

# pids_few NUMBER: few more PIDs than there are in use. After a wrap the kernel begins at 300.
pids_few() {
	local used
	used=$(find /proc -maxdepth 3 -path '/proc/[0-9]*/task/[0-9]*' 2> /dev/null | wc -l)
	echo $((300 + used + $1)) > /proc/sys/kernel/pid_max
	trap 'echo 4194304 > /proc/sys/kernel/pid_max' EXIT
}
