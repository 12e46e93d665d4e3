#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Every event, switched on and off, filtered, and counted by its fields: as any of the kernel's.

# shellcheck source=tests/guest/events.bash
. ./events.bash

system=$tracefs/events/schedhist/enable

# is_on EVENT STATE-OF-EVENT STATE-OF-SYSTEM
is_on() {
	local listed=
	same "enable of $1" "$(< "$(folder "$1")/enable")" "$2"
	same "enable of the system with $1 at $2" "$(< "$system")" "$3"
	grep -qx "schedhist:$1" "$tracefs/set_event" && listed=1
	same "$1 in set_event" "${listed:-0}" "$2"
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

# An event that is on is emitted, and no other; one that is off is not.
test_event_alone() {
	local event
	load metrics=all
	outliers_of runq
	for event in "${events[@]}"; do
		echo > "$tracefs/trace"
		echo 1 > "$(folder "$event")/enable"
		some_switches
		echo 0 > "$(folder "$event")/enable"
		trace_lines > "$work/trace"
		sleep 0.2
		same "lines of the trace after $event was switched off" "$(trace_lines | wc -l)" \
			"$(wc -l < "$work/trace")"
		grep -q ": $event: " "$work/trace" || fail "no $event"
		if grep -v ": $event: " "$work/trace"; then
			fail "these are not $event"
		fi
	done
}

test_event_filter_fields() {
	local event type field operator filter operators value number=0
	about_texts
	hurry
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
			for operator in "${operators[@]}"; do
				echo "$field $operator $value" > "$filter"
				[[ $(< "$filter") == "$field $operator "* ]] || fail "the filter is $(< "$filter")"
				number=$((number + 1))
			done
		done < <(fields "$event")
		refused_filter 'nonsense == 1'
		refused_filter 'cpu =='
		echo 0 > "$filter"
		same "the filter of $event" "$(< "$filter")" none
	done
	# Numbers have 7 operators and names 3: five samples alike, idle, outlier and culprit.
	same "filters" "$number" $((5 * (5 * 7 + 3) + (4 * 7 + 3) + (11 * 7 + 3) + (6 * 7 + 3)))
}

# refused_filter FILTER: the event that the caller is at does not take it.
refused_filter() {
	# shellcheck disable=SC2016 # of that shell
	fails_with "Invalid argument" bash -c 'echo "$1" > "$2"' sh "$1" "$filter"
}

# A histogram of the kernel's for each field; all see the same events.
test_event_hist_fields() {
	local event type field trigger keys number=0
	about_texts
	hurry
	load metrics=all
	outliers_of runq
	for event in "${events[@]}"; do
		trigger=$(folder "$event")/trigger
		keys=()
		measure 0
		while read -r field type; do
			echo "hist:keys=$field:size=4096" >> "$trigger"
			keys+=("$field")
		done < <(fields "$event")
		measure 1
		some_switches
		measure 0
		cat "$(folder "$event")/hist" > "$work/hist"
		same "histograms of $event" "$(hits "$work/hist" | wc -l)" "${#keys[@]}"
		same "different numbers of hits of $event" "$(hits "$work/hist" | sort -u | wc -l)" 1
		within "hits of $event" 1 "$(hits "$work/hist" | head -n 1)" 1000000
		for field in "${keys[@]}"; do
			grep -qE "^\{ $field: .* \} hitcount: +[1-9]" "$work/hist" || fail "nothing by $field of $event"
			echo "!hist:keys=$field:size=4096" >> "$trigger"
			number=$((number + 1))
		done
		! grep -q '^hist' "$trigger" || fail "triggers of $event are still there"
	done
	note "$number triggers"
	unload
	assert_gone
}
