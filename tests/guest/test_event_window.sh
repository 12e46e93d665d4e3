#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The events of a window, as all listeners see them: the histograms, ftrace, a histogram of the
# kernel's, perf, trace-cmd and bpftrace. Measuring is off when they start and when they end.

# shellcheck source=tests/guest/events.bash
. ./events.bash
# shellcheck source=tests/guest/users.bash
. ./users.bash

# save FOLDER: copies the histograms of each CPU.
save() {
	mkdir "$1"
	cp -r "$debugfs"/per_cpu/* "$1"
}

# Also lets the kernel count each event.
instance_count() {
	local event
	for event in "${events[@]}"; do
		echo 'hist:keys=cpu' > "$instance/events/schedhist/$event/trigger"
	done
}

count_of() { awk -v event="$1:" '$1 == event' "$2" | wc -l; }

# grown METRIC: prints how many samples its histograms have gained.
grown() {
	awk '$1 == "count" { n += FILENAME ~ /\/after\// ? $2 : -$2 } END { print n + 0 }' \
		"$work"/{before,after}/*/hist/"$1"
}

culprits_of_outliers() {
	sed -nE 's/^outlier: .* culprits=([0-9]+) .*/\1/p' "$work/ftrace" | awk '{ n += $1 } END { print n }'
}

# Prints how often each event must have been seen.
expected_counts() {
	local event
	for event in "${events[@]}"; do
		case $event in
		blocked) echo "$event $(($(grown blocked_interruptible) + $(grown blocked_uninterruptible)))" ;;
		outlier) echo "$event $(status outliers)" ;;
		culprit) echo "$event $(culprits_of_outliers)" ;;
		*) echo "$event $(grown "$event")" ;;
		esac
	done
}

# There is exactly one event for each sample, in every bucket.
test_event_samples() {
	load metrics=all
	measure 0
	instance_open "${events[@]}"
	save "$work/before"
	measure 1
	some_switches
	measure 0
	save "$work/after"
	nothing_lost "$instance"
	as_of_ftrace "$instance/trace" > "$work/ftrace"
	python3 -S ./samples.py "$work/before" "$work/after" "$work/ftrace"
}

allow_seconds test_event_window 480
test_event_window() {
	local event wanted counts perf trace_cmd bpftrace missed seen
	needs perf trace-cmd bpftrace hist
	expedite_rcu
	load metrics=all
	measure 0
	outliers_of runq 150
	outliers_of idle 150

	instance_open "${events[@]}"
	instance_count
	background bpftrace_start
	bpftrace=$!
	background perf_start
	perf=$!
	background trace_cmd_start
	trace_cmd=$!
	perf_wait
	trace_cmd_wait
	bpftrace_wait

	save "$work/before"
	measure 1
	some_switches
	measure 0
	save "$work/after"

	# perf misses the same ones.
	missed=$(bpftrace_missed "$bpftrace")
	nothing_lost "$instance"
	nothing_lost "$tracefs/instances/schedhist_trace_cmd"
	# One after the other: trace-cmd reads the kernel's symbols, and bpftrace removes some.
	interrupt "$trace_cmd"
	interrupt "$perf"
	bpftrace_end "$bpftrace"

	as_of_ftrace "$instance/trace" > "$work/ftrace"
	"${no_symbols[@]}" perf script -i "$work/perf.data" --show-lost-events -F event,trace 2> /dev/null | as_of_perf > "$work/perf"
	trace-cmd report "$work/trace.dat" 2> /dev/null | sed '/^cpus=/d' | as_of_ftrace > "$work/trace-cmd"
	diff "$work/ftrace" "$work/perf" > "$work/diff" ||
		[[ $(sed -n 's/^\([<>]\) .*/\1/p' "$work/diff" | sort | uniq -c | xargs) == "$missed <" ]] ||
		fail "perf sees others, and bpftrace missed $missed: $(head "$work/diff")"
	diff "$work/ftrace" "$work/trace-cmd" > "$work/diff" || fail "trace-cmd sees others: $(head "$work/diff")"
	python3 -S ./samples.py "$work/before" "$work/after" "$work/ftrace"
	expected_counts > "$work/expected"
	while read -r event wanted; do
		seen=$(count_of "$event" "$work/perf")
		counts="$(count_of "$event" "$work/ftrace") $seen "
		counts+="$(count_of "$event" "$work/trace-cmd") $(bpftrace_count "$event") "
		counts+="$(hits "$instance/events/schedhist/$event/hist")"
		note "$event: $wanted; ftrace, perf, trace-cmd, bpftrace, hist: $counts"
		same "$event seen by ftrace, perf, trace-cmd, bpftrace, hist" "$counts" \
			"$wanted $seen $wanted $seen $wanted"
		# Nothing has a quota here.
		[[ $event == throttled ]] || within "number of $event" 50 "$wanted" 100000
	done < "$work/expected"
	same "outliers" "$(status outliers)" 150
}
