#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# An unprivileged user has access to nothing, even if debugfs and tracefs are open to all.

as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all -- "$@"
}

# Prints the paths from its input that it can open for reading or for writing.
# shellcheck disable=SC2016 # for that shell
opened='while IFS= read -r path; do
	if (: < "$path") 2> /dev/null; then echo "read $path"; fi
	[[ -d $path ]] || if (: >> "$path") 2> /dev/null; then echo "write $path"; fi
done'
opened_by() { "$@" bash -c "$opened"; }

open_to_all() {
	mount -o remount,mode=755 /sys/kernel/debug
	mount -o remount,mode=755 "$tracefs"
	trap 'mount -o remount,mode=700 /sys/kernel/debug; mount -o remount,mode=700 $tracefs' EXIT
}

test_permissions_modes() {
	local found
	load
	found=$(find "$debugfs" -type f -printf '%m %P\n' | grep -vE '^(400|600|200) ' || true)
	same "files with another mode" "$found" ""
	found=$(find "$debugfs" -type f -perm /222 -printf '%P\n' | grep -v ^threshold_ns/ | sort | paste -sd ' ')
	same "files that can be written" "$found" "enable group_by group_limit group_memory_limit group_rules metrics on_outlier outlier_limit outlier_rate reset"
	same "what is not root's" "$(find "$debugfs" ! -uid 0 -o ! -gid 0)" ""
	same "folders others can write to" "$(find "$debugfs" -type d -perm /022)" ""
}

test_permissions_closed() {
	load
	same "what nobody can open" "$(find "$debugfs" "$tracefs/events/schedhist" -type f | opened_by as_nobody)" ""
	fails_with "Permission denied" as_nobody ls "$debugfs"
	fails_with "Permission denied" as_nobody ls "$tracefs/events/schedhist"
}

# Then only the modes of our own files protect them: the names of directories are visible.
test_permissions_open() {
	local all found
	load
	open_to_all
	all=$(find "$debugfs" "$tracefs/events/schedhist" -type f)
	same "files that root can open" "$(opened_by env <<< "$all" | grep -c ^read)" "$(wc -l <<< "$all")"
	same "what nobody can open" "$(opened_by as_nobody <<< "$all")" ""
	as_nobody ls "$debugfs" > /dev/null
	fails_with "Permission denied" as_nobody touch "$debugfs/threshold_ns/new"
	# Nor has root in a user namespace of its own.
	if as_nobody unshare --map-root-user true 2> /dev/null; then
		found=$(opened_by as_nobody unshare --map-root-user <<< "$all")
		same "what root in a namespace can open" "$found" ""
	else
		note "no user namespaces for nobody"
	fi
}

test_permissions_events() {
	local paranoid id
	needs perf
	load
	# The default of kernels that no distribution has changed.
	paranoid=$(sysctl -n kernel.perf_event_paranoid)
	id=$(< "$tracefs/events/schedhist/runq/id")
	# shellcheck disable=SC2064 # as it is now
	trap "sysctl -qw kernel.perf_event_paranoid=$paranoid" EXIT
	sysctl -qw kernel.perf_event_paranoid=2
	same "root, by the event's number" "$(./perf_open.py "$id")" "opened opened"
	same "nobody, by the event's number" "$(as_nobody python3 perf_open.py "$id")" "EACCES EPERM"
	sysctl -qw kernel.perf_event_paranoid="$paranoid"
	open_to_all
	fails_with "ermission" as_nobody perf stat -a -e schedhist:runq true
	fails_with "ermission" as_nobody perf record -o /dev/null -e schedhist:runq true
}

test_permissions_module() {
	local found
	fails_with "not permitted" as_nobody insmod "$SCHEDHIST_KO"
	load
	fails_with "not permitted" as_nobody rmmod schedhist
	found=$(find /sys/module/schedhist -type f | opened_by as_nobody | grep -v ^read || true)
	same "what nobody can write" "$found" ""
	# The parameters chosen at load time can be read, and cannot be changed.
	same "parameters" "$(ls /sys/module/schedhist/parameters)" $'group_by\ngroup_rules\nmetrics\nprecision'
	same metrics "$(as_nobody cat /sys/module/schedhist/parameters/metrics)" default
	same precision "$(as_nobody cat /sys/module/schedhist/parameters/precision)" 5
	fails_with "Permission denied" tee /sys/module/schedhist/parameters/metrics <<< all
	fails_with "Permission denied" tee /sys/module/schedhist/parameters/precision <<< 7
}
