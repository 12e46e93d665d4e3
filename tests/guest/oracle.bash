# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2120,SC2154
#
# What the tests against independent references share. Sourced by them.

# With all metrics, also those that are off unless asked for.
load_all() { load metrics=all "$@"; }

# pids_few NUMBER: so many PIDs that are free. After a wrap the kernel begins at 300.
pids_few() {
	task_ids | sort -n |
		awk -v limit=$((300 + $1)) '$1 >= 300 && $1 < limit { limit++ } END { print limit }' \
			> /proc/sys/kernel/pid_max
	trap 'echo 4194304 > /proc/sys/kernel/pid_max' EXIT
}
