# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Helpers that the tests of the trace events share. Sourced by them.

events=(oncpu runq offcpu blocked wakeup throttled idle outlier culprit)

# folder EVENT: prints its directory in tracefs.
folder() { echo "$tracefs/events/schedhist/$1"; }

# fields EVENT: prints the names of its fields, each with its C type.
fields() {
	sed -nE '/ common_/d; s/^\tfield:(.*) ([a-z_]+)(\[[0-9]+\])?;.*/\2 \1\3/p' "$(folder "$1")/format"
}

trace_lines() { sed '/^#/d' "$tracefs/trace"; }

# A trace instance of our own, whose buffer is large enough for everything that a test does.
instance=$tracefs/instances/schedhist_test

# instance_open EVENT...: creates the instance and traces these events in it.
instance_open() {
	local event
	mkdir "$instance"
	echo 8192 > "$instance/buffer_size_kb"
	for event; do
		echo 1 > "$instance/events/schedhist/$event/enable"
	done
}

# Prints an event and its text in each line, sorted: the same for every reader.
as_of_ftrace() { sed -E '/^#/d; s/^.* [0-9.]+: ([a-z]+): +/\1: /' "$@" | sort; }
as_of_perf() { sed -E 's/^ *schedhist:([a-z]+): +/\1: /' | sort; }

# nothing_lost INSTANCE: no event was overwritten or dropped.
nothing_lost() {
	same "events lost by ${1##*/}" "$(grep -hE '^(overrun|commit overrun|dropped events): [^0]' "$1"/per_cpu/*/stats || true)" ""
}

# outliers_of METRIC [LIMIT]: each sample of the metric above 1 ns is an outlier, at most LIMIT of
# them.
outliers_of() {
	echo none > "$debugfs/outlier_rate"
	echo "${2-none}" > "$debugfs/outlier_limit"
	echo 1 > "$debugfs/threshold_ns/$1"
}

# Emits some events of every kind but `throttled`, if all metrics are on and waits for a CPU are outliers.
some_switches() { messages 1; }

# hits FILE: prints how often each of the kernel's histograms in the file counted the event. Where
# two CPUs add the same new key at once, the kernel may drop one (kernel/trace/tracing_map.c).
hits() { awk '$1 == "Hits:" { n = $2 } $1 == "Dropped:" { print n + $2 }' "$1"; }
