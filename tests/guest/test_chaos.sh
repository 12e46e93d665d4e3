#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2034,SC2154 # set by chaos_start; variables of lib.sh
#
# All at once: tasks that are forked, moved, renamed and executed, CPUs that go and come back, rules,
# cgroups, groups, events, outliers, controls and readers.
#
# SCHEDHIST_SEED repeats what chaos.py does, as far as processes can be controlled.

# shellcheck source=tests/guest/groups.bash
. ./groups.bash

# chaos_start NAME PART...: runs these parts of chaos.py, and sets $NAME to their process group. Returns
# when all are at work.
chaos_start() {
	local part
	yielding python3 -SE chaos.py /schedhist/chaos "$work/storm_log" "${@:2}" > "$work/background_$1" 2>&1 &
	printf -v "$1" %s $!
	echo $! >> "$work/chaos"
	for part in "${@:2}"; do
		until grep -q "^$part " "$work/storm_log"; do
			goes_on
			sleep 0.2
		done
	done
}

# chaos_end: ends all that was started.
chaos_end() {
	local group
	[[ -e $work/chaos ]] || return 0
	for group in $(< "$work/chaos"); do kill_group "$group"; done
	rm "$work/chaos"
}

# goes_on: asserts that no part has ended by itself.
goes_on() {
	local name
	for name in steady restless; do
		[[ -s $work/background_$name ]] || continue
		# It may not have said all yet.
		sleep 2
		fail "chaos: $(tail -n 5 "$work/background_$name")"
	done
	[[ ! -s $work/storm_said ]] || fail "the storm: $(< "$work/storm_said")"
}

allow_seconds test_chaos $((${SCHEDHIST_THOROUGH:+1} + 0 ? 3000 : 400))
test_chaos() {
	local rule i steady restless seconds=3 rounds=1 storm=(fork into move mkdir exec rename)
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || seconds=20 rounds=8
	[[ ! -w /sys/devices/system/cpu/cpu1/online ]] || storm+=(hotplug)
	cgroups_on
	mkdir "$base/chaos"
	expedite_rcu
	load metrics=all
	storm_start "${storm[@]}"
	trap chaos_end EXIT
	chaos_start steady rules remake events outliers read
	chaos_start restless groups control
	for ((i = 0; i < rounds; i++)); do
		for rule in list "cgroup under /schedhist" comm; do
			kill -CONT -- "-$restless"
			sleep "$seconds"
			stop_group "$restless"
			# From here on, what is counted adds up.
			echo all > "$debugfs/metrics"
			echo 100 > "$debugfs/group_limit"
			echo none > "$debugfs/group_memory_limit"
			echo none > "$debugfs/group_by"
			group_begin "$rule"
			sleep "$seconds"
			measure 0
			storm_signal STOP
			note "by $rule: $(status switches) switches, $(head_of gone) gone, $(head_of refused) refused"
			assert_laws
			assert_group_laws
			goes_on
			log_so_far test_chaos
			storm_signal CONT
		done
	done
	kill -CONT -- "-$restless"
	sleep 1
	chaos_end
	tracing_reset
	unload
	assert_gone
	storm_stop
}
