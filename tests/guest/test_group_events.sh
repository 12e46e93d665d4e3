#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The group in trace events and outliers.

# shellcheck source=tests/guest/events.bash
. ./events.bash
# shellcheck source=tests/guest/groups.bash
. ./groups.bash

# runs_sleep NAME: whether the first task of a cgroup does.
runs_sleep() { grep -qsx sleep "/proc/$(head -n 1 "$base/$1/cgroup.procs")/comm"; }

# sleeper NAME: starts a task that sleeps in a cgroup, so that there is a group of it.
sleeper() {
	in_cgroup "$1" sleep 1000 &
	waits_for runs_sleep "$1"
}

# comms EVENT [TEXT]: prints the names of the tasks of an event whose line has TEXT, each once.
comms() {
	sed -nE "/ $1: .*${2-}/s/.*: .*comm=(.*) pid=.*/\1/p" "$instance/trace" | sort -u | paste -sd ' '
}

# only EVENT NAME: asserts that all tasks of an event have this name. in_cgroup is a program in Python
# before it executes another one.
only() {
	local found
	found=$(comms "$1")
	[[ $found == "$2" || $found == "$2 python3" ]] || fail "tasks of $1: '$found'"
}

# A filter by group passes the group's events, all of them and no others, and the same for outliers
# and culprits.
test_group_events() {
	local event metric name number other bench reader before=() i=0
	cgroups_on
	mkdir "$base/a" "$base/b"
	for name in a b; do
		cp "$(command -v hackbench)" "$work/bench_$name"
	done
	load
	outliers_of runq
	sleeper a
	sleeper b
	group_begin "cgroup under /schedhist"
	number=$(of_group /schedhist/a id)
	other=$(of_group /schedhist/b id)
	((number > 0 && other > 0 && number != other)) || fail "groups $number and $other"

	instance_open
	for event in oncpu runq offcpu outlier; do
		echo "group == $number" > "$instance/events/schedhist/$event/filter"
	done
	echo "group == $other" > "$instance/events/schedhist/culprit/filter"
	for metric in oncpu runq offcpu; do
		before+=("$(of_group /schedhist/a "${metric}_count")")
	done
	for event in oncpu runq offcpu outlier culprit; do
		echo 1 > "$instance/events/schedhist/$event/enable"
	done
	cat "$debugfs/outlier_pipe" > "$work/piped" 2> /dev/null &
	reader=$!
	in_cgroup a "$work/bench_a" --groups 1 --loops 5 > /dev/null &
	bench=$!
	in_cgroup b "$work/bench_b" --groups 1 --loops 5 > /dev/null
	wait "$bench"
	measure 0
	# It fails, as no outlier can come any more.
	! wait "$reader" || fail "the pipe has an end"
	nothing_lost "$instance"
	for metric in oncpu runq offcpu; do
		same "events of $metric" "$(grep -c " $metric: " "$instance/trace")" \
			$(($(of_group /schedhist/a "${metric}_count") - before[i++]))
		only "$metric" bench_a
		same "tasks of another group" "$(grep " $metric: " "$instance/trace" | grep -vc " group=$number$")" 0
	done
	same outliers "$(grep -c " outlier: .* group=$number$" "$instance/trace")" \
		"$(grep " runq: " "$instance/trace" | grep -vcE 'duration_ns=[01] ')"
	same "culprits" "$(comms culprit)" "$(comms culprit "group=$other$")"
	only culprit bench_b
	assert_group_laws

	# Both sleep, so that this is not a sample.
	xargs kill < <(cat "$base"/[ab]/cgroup.procs)

	# The text agrees, as far as a reader kept up.
	awk -v of="$number" -v other="$other" '
		/^#/ { next }
		{
			group = comm = ""
			for (i = 2; i < NF && !comm; i += 2) {
				if ($i == "group") group = $(i + 1)
				if ($i == "comm") comm = $(i + 1)
			}
		}
		group == "" { print "no group: " $0 }
		comm == "bench_a" && group != of { print "not " of ": " $0 }
		comm == "bench_b" && group != other { print "not " other ": " $0 }
		comm ~ /^swapper/ && group != 0 { print "not 0: " $0 }
		comm ~ /^bench_/ { n++ }
		END { if (!n) print "none of the tasks" }
	' "$work/piped" "$debugfs/outliers" > "$work/wrong"
	[[ ! -s $work/wrong ]] || fail "outliers: $(head -n 5 "$work/wrong")"
}

# While tasks are not grouped, each event has group 0.
test_group_events_none() {
	load
	outliers_of runq
	instance_open oncpu runq outlier culprit
	some_switches
	measure 0
	within "events" 100 "$(grep -c ' group=0$' "$instance/trace")" 1000000000
	! grep -v '^#' "$instance/trace" | grep -v ' group=0$' || fail "these have a group"
	same "groups in the text" "$(grep -o ' group [0-9]*' "$debugfs/outliers" | sort -u)" " group 0"
}
