# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2120,SC2154
#
# Helpers that the tests against independent references share. Sourced by them.

# Loads the module with all metrics, including those that are off by default.
load_all() { load metrics=all "$@"; }

# pids_few NUMBER: limits the PIDs so that NUMBER are free. After a wrap the kernel begins at 300.
pids_few() {
	task_ids | sort -n |
		awk -v limit=$((300 + $1)) '$1 >= 300 && $1 < limit { limit++ } END { print limit }' \
			> /proc/sys/kernel/pid_max
	trap 'echo 4194304 > /proc/sys/kernel/pid_max' EXIT
}
