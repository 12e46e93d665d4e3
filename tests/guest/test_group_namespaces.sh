#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016,SC2154 # programs of other shells; lib.sh
#
# What is written names processes and cgroups as the writer's namespaces do, and is shown as the
# initial ones do.

# shellcheck source=tests/guest/groups.bash
. ./groups.bash

# rule TEXT: writes a command.
rule() { echo "$1" > "$debugfs/group_rules"; }

# has_rule TEXT: asserts that the list shows this rule.
has_rule() { grep -qxF "rule $1" "$debugfs/group_rules" || fail "no '$1' in: $(< "$debugfs/group_rules")"; }

test_group_pid_namespace() {
	local inner
	load
	# The shell is PID 1 there, and its PID here is that of the only child of `unshare`.
	unshare --pid --fork --kill-child --mount-proc sh -c '
		echo list > "$1/group_by" && echo "add kids children 1" > "$1/group_rules" &&
			echo "add both pid 1,1" > "$1/group_rules" && touch "$2/written"
		until [ -e "$2/goes_on" ]; do sleep 0.1; done
		echo process 1 > "$1/group_by" && touch "$2/written"
		sleep 300
	' sh "$debugfs" "$work" &
	echo $! >> "$work/background"
	waits_for test -e "$work/written"
	inner=$(pgrep --parent "$!")
	has_rule "kids children $inner"
	has_rule "both pid $inner $inner"
	rm "$work/written"
	touch "$work/goes_on"
	waits_for test -e "$work/written"
	same group_by "$(< "$debugfs/group_by")" "process $inner"
	grep -q " name $inner:sh$" "$debugfs/groups" || fail "no group of it: $(< "$debugfs/groups")"
	kill -KILL "$!"
	wait "$!" || true
}

test_group_cgroup_namespace() {
	local path
	load
	cgroups_on
	mkdir -p "$base/pod/in"
	path=${base#"$cgroupfs"}/pod
	in_pod() { (echo "$BASHPID" > "$base/pod/cgroup.procs" && unshare --cgroup sh -c "$@"); }
	in_pod "echo cgroup under /in depth 2 > '$debugfs/group_by'"
	same group_by "$(< "$debugfs/group_by")" "cgroup under $path/in depth 2"
	# All cgroups are all.
	in_pod "echo cgroup > '$debugfs/group_by'"
	same group_by "$(< "$debugfs/group_by")" cgroup
	waits_for grep -q ' name /$' "$debugfs/groups"
	echo list > "$debugfs/group_by"
	in_pod "echo add it cgroup / > '$debugfs/group_rules'"
	has_rule "it cgroup $path"
	rule "add theirs cgroup $path/in/"
	has_rule "theirs cgroup $path/in"
}

# A process of which the first thread has ended is one all the same.
test_group_leader_gone() {
	local pid
	load
	python3 -SE -c '
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
' &
	pid=$!
	echo "$pid" >> "$work/background"
	waits_for grep -q '^State:.Z' "/proc/$pid/status"
	echo "process $pid" > "$debugfs/group_by"
	echo list > "$debugfs/group_by"
	rule "add it pid $pid"
	rule "add its children $pid"
	# Nor is it one once all threads have ended, though its parent has not waited for it.
	kill -KILL "$pid"
	waits_for eval '[[ -z $(ls "/proc/$pid/task" | grep -vx "$pid") ]]'
	fails_with "No such process" write "$debugfs/group_rules" "add dead pid $pid"
	wait "$pid" || true
}
