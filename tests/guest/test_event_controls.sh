#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Every event is switched on and off, filtered, and counted by its fields, like any of the kernel's.

# shellcheck source=tests/guest/events.bash
. ./events.bash

system=$tracefs/events/schedhist/enable

# is_on EVENT STATE-OF-EVENT STATE-OF-SYSTEM
is_on() {
	local listed=0 lines
	# Does not fork.
	read -r REPLY < "$tracefs/events/schedhist/$1/enable"
	same "enable of $1" "$REPLY" "$2"
	read -r REPLY < "$system"
	same "enable of the system with $1 at $2" "$REPLY" "$3"
	mapfile -t lines < "$tracefs/set_event"
	[[ " ${lines[*]} " != *" schedhist:$1 "* ]] || listed=1
	same "$1 in set_event" "$listed" "$2"
}

test_event_enable() {
	local event
	about_texts
	load
	for event in "${events[@]}"; do
		is_on "$event" 0 0
		echo "schedhist:$event" >> "$tracefs/set_event"
		is_on "$event" 1 X
		echo "!schedhist:$event" >> "$tracefs/set_event"
		is_on "$event" 0 0
		echo 1 > "$(folder "$event")/enable"
		is_on "$event" 1 X
		echo 0 > "$(folder "$event")/enable"
		is_on "$event" 0 0
	done
	echo 1 > "$system"
	for event in "${events[@]}"; do is_on "$event" 1 1; done
	echo 0 > "$(folder runq)/enable"
	same "enable of the system without runq" "$(< "$system")" X
	echo 0 > "$system"
	for event in "${events[@]}"; do is_on "$event" 0 0; done
	echo 'schedhist:*' >> "$tracefs/set_event"
	for event in "${events[@]}"; do is_on "$event" 1 1; done
	echo '!schedhist:*' >> "$tracefs/set_event"
	for event in "${events[@]}"; do is_on "$event" 0 0; done
}

# entries: prints the number of entries in the trace.
entries() { awk '$1 == "entries:" { n += $2 } END { print n + 0 }' "$tracefs"/per_cpu/*/stats; }

# An enabled event is emitted, and no other; a disabled event is not.
test_event_alone() {
	local event number
	load metrics=all
	outliers_of runq
	for event in "${events[@]}"; do
		echo > "$tracefs/trace"
		echo 1 > "$(folder "$event")/enable"
		some_switches
		echo 0 > "$(folder "$event")/enable"
		number=$(entries)
		trace_lines > "$work/trace"
		sleep 0.1
		same "entries of the trace after $event was switched off" "$(entries)" "$number"
		# Nothing here has a quota: see test_throttled.sh.
		[[ $event == throttled ]] || grep -q ": $event: " "$work/trace" || fail "no $event"
		if grep -v ": $event: " "$work/trace"; then
			fail "these are not $event"
		fi
	done
}

test_event_filter_fields() {
	local event type field operator filter operators terms value number=0
	about_texts
	expedite_rcu
	load
	for event in "${events[@]}"; do
		filter=$(folder "$event")/filter
		while read -r field type; do
			if [[ $type == char* ]]; then
				operators=('==' '!=' '~') value='"x*"'
				refused_filter "$field > 1"
			else
				operators=('==' '!=' '<' '<=' '>' '>=' '&') value=5
				refused_filter "$field ~ \"x*\""
			fi
			# All terms at once: each change of a filter waits for grace periods.
			terms=''
			for operator in "${operators[@]}"; do
				terms+="${terms:+ || }$field $operator $value"
				number=$((number + 1))
			done
			echo "$terms" > "$filter"
			read -r REPLY < "$filter"
			same "the filter of $event" "$REPLY" "$terms"
		done < <(fields "$event")
		refused_filter 'nonsense == 1'
		refused_filter 'cpu =='
		echo 0 > "$filter"
		same "the filter of $event" "$(< "$filter")" none
	done
	# Numbers have 7 operators and names 3: six similar events for samples, idle, outlier and
	# culprit.
	same "filters" "$number" $((6 * (6 * 7 + 3) + (4 * 7 + 3) + (12 * 7 + 3) + (7 * 7 + 3)))
}

# refused_filter FILTER: asserts that the caller's current event refuses it.
refused_filter() { fails_with "Invalid argument" write "$filter" "$1"; }

# The kernel keeps one histogram for each field; all histograms of an event count the same events.
# They are small, because the kernel allocates all their rows at once; it counts the events that
# have no room.
test_event_hist_fields() {
	local event field type trigger number=0
	needs hist
	about_texts
	expedite_rcu
	load metrics=all
	outliers_of runq
	measure 0
	for event in "${events[@]}"; do
		# Nothing here has a quota.
		[[ $event != throttled ]] || continue
		while read -r field type; do
			echo "hist:keys=$field:size=256" >> "$(folder "$event")/trigger"
			echo "$field" >> "$work/fields.$event"
			number=$((number + 1))
		done < <(fields "$event")
	done
	note "$number triggers"
	measure 1
	some_switches
	measure 0
	for event in "${events[@]}"; do
		[[ $event != throttled ]] || continue
		trigger=$(folder "$event")/trigger
		cat "$(folder "$event")/hist" > "$work/hist"
		hits "$work/hist" > "$work/hits"
		same "histograms of $event" "$(wc -l < "$work/hits")" "$(wc -l < "$work/fields.$event")"
		same "different numbers of hits of $event" "$(sort -u "$work/hits" | wc -l)" 1
		within "hits of $event" 1 "$(head -n 1 "$work/hits")" 1000000
		awk '$1 == "{" && / hitcount: +[1-9]/ { print substr($2, 1, length($2) - 1) }' "$work/hist" |
			sort -u > "$work/rows"
		diff "$work/rows" <(sort "$work/fields.$event") || fail "not these fields of $event have rows"
		while read -r field; do
			echo "!hist:keys=$field:size=256" >> "$trigger"
		done < "$work/fields.$event"
		! grep -q '^hist' "$trigger" || fail "triggers of $event are still there"
	done
	rm "$work"/fields.*
	unload
	assert_gone
}
