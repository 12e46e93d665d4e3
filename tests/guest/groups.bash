# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Helpers that the tests of groups share. Sourced by them, and by cleanup().

cgroupfs=/sys/fs/cgroup
# All cgroups of a test are below this one.
base=$cgroupfs/schedhist

# cgroups_on: mounts the default hierarchy and makes $base.
cgroups_on() {
	: > "$work/cgroups"
	mountpoint -q "$cgroupfs" || mount -t cgroup2 none "$cgroupfs"
	mkdir "$base"
}

# Called by cleanup().
cgroups_off() {
	storm_end
	python3 -SE group_storm.py remove "$base"
	umount "$cgroupfs"
	[[ ! -e /sys/devices/system/cpu/cpu1/online ]] || echo 1 > /sys/devices/system/cpu/cpu1/online
	rm "$work/cgroups"
}

# in_cgroup NAME COMMAND...: runs it in a cgroup below $base, from its first moment on.
in_cgroup() { python3 -SE group_storm.py into "$base/$1" "${@:2}"; }

# group_begin RULE: begins to measure with new groups. Nothing is counted yet when both begin.
group_begin() {
	measure 0
	echo 1 > "$debugfs/reset"
	echo "$1" > "$debugfs/group_by"
	measure 1
}

# assert_group_laws: asserts that the groups add up to the machine. Only exact while measuring is
# off, and after group_begin.
assert_group_laws() { python3 -SE group_laws.py; }

# assert_members RULE: asserts that each task is in its group. No task may move meanwhile.
assert_members() { python3 -SE group_audit.py "$1"; }

# of_group NAME KEY: prints a value of a group.
of_group() {
	# awk would take a backslash in an assignment for an escape.
	name=$1 awk -v key="$2" '
		$1 == "group" && substr($0, index($0, " name ") + 6) == ENVIRON["name"] {
			for (i = 2; i < NF; i += 2) if ($i == key) { print $(i + 1); found = 1; exit }
		}
		END { exit !found }
	' "$debugfs/groups"
}

# head_of KEY: prints a value of the head of `groups`.
head_of() { value groups "$1"; }

# names_of_groups: prints the names of all groups.
names_of_groups() { sed -n 's/^group .* name //p' "$debugfs/groups"; }

# --- a storm of everything that changes a task's group ---

# storm_start KIND...: runs it until storm_stop. Few PIDs are left, so that each is used again soon.
# Returns when all of its processes are at work.
storm_start() {
	echo $(($(max_task_id) + 400)) > /proc/sys/kernel/pid_max
	: > "$work/storm_log"
	yielding python3 -SE group_storm.py run "$base" "$work/storm_log" "$@" > "$work/storm_said" 2>&1 &
	echo $! > "$work/storm_leader"
	while (($(cut -d ' ' -f 1 "$work/storm_log" | sort -u | wc -l) < ($# ? $# : 7))); do
		kill -0 "$(< "$work/storm_leader")" || fail "the storm ended: $(< "$work/storm_said")"
		sleep 0.2
	done
}

max_task_id() { task_ids | sort -n | tail -n 1; }

# storm_signal SIGNAL: sends it to all processes of the storm at once: they are one process group.
storm_signal() { kill "-$1" -- "-$(< "$work/storm_leader")"; }

# storm_pause: stops all processes of the storm, in the middle of what they do.
storm_pause() { stop_group "$(< "$work/storm_leader")"; }

# stop_group PGID: stops all processes of a process group.
stop_group() {
	kill -STOP -- "-$1"
	sleep 0.1
	# A process stops when it returns to user space.
	while pgrep --pgroup "$1" --runstates RSD > /dev/null; do sleep 0.1; done
}

# storm_end: ends the storm.
storm_end() {
	[[ -e $work/storm_leader ]] || return 0
	kill_group "$(< "$work/storm_leader")"
	rm -f "$work/storm_leader"
	echo 4194304 > /proc/sys/kernel/pid_max
}

# storm_stop: ends the storm, and prints how much it did.
storm_stop() {
	storm_end
	[[ ! -s $work/storm_said ]] || fail "the storm: $(< "$work/storm_said")"
	sort "$work/storm_log" | awk '
		$2 != "" { n[$1] += $2 }
		END { for (kind in n) printf "%s%d %s", k++ ? ", " : "# storm: ", n[kind], kind; print "" }
	'
}
