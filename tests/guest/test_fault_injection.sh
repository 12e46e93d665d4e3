#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Each allocation of the module fails in turn, alone or with all that follow it. The operation fails
# with ENOMEM and leaves nothing behind, or succeeds without the memory.

# shellcheck source=tests/guest/faults.bash
. ./faults.bash

seeks_leaks test_fault_load test_fault_load_all test_fault_enable test_fault_off \
	test_fault_metrics test_fault_group_by test_fault_threshold test_fault_reset test_fault_read test_fault_events \
	test_fault_fork test_fault_sweep test_fault_online

# files_of DIRECTORY: sets REPLY to the number of files below it. Does not fork.
files_of() {
	local files
	shopt -s globstar
	files=("$1"/**)
	REPLY=${#files[@]}
}

# assert_works: asserts that all files are there, that the module measures, and that everything adds
# up.
assert_works() {
	files_of "$debugfs"
	same "number of files" "$REPLY" "$all_files"
	files_of "$tracefs/events/schedhist"
	same "number of files of events" "$REPLY" "$all_event_files"
	file enable
	same enable "$REPLY" 1
	measure 0
	assert_laws
}

# load_in_turn HOW STEP PARAMETERS: fails every STEPth of the hundreds of allocations for files,
# which repeat a sequence of a few. A thorough run uses a seventh of the step.
load_in_turn() {
	local how=$1 step=$2 parameters=$3
	local n all did_without=0 refused=0
	[[ -z ${SCHEDHIST_THOROUGH-} ]] || step=$(((step + 6) / 7))
	operation load "$ko" "$parameters"
	attempt once 100000
	all=$asked
	files_of "$debugfs"
	all_files=$REPLY
	files_of "$tracefs/events/schedhist"
	all_event_files=$REPLY
	unload
	for ((n = 1;; n += 16 < n && n < all - 24 - step ? step : 1)); do
		attempt "$how" "$n"
		if ((errno)); then
			assert_no_trace
			((++refused))
			continue
		fi
		assert_works
		unload
		assert_no_trace
		((failed)) || break
		((++did_without))
	done
	operation_end
	note "load${parameters:+ $parameters}, $how: $all allocations, $refused times refused, $did_without times it did without"
	within "allocations of loading" 100 "$all" 10000
	within "times refused" 10 "$refused" "$all"
}

lacks_memory test_fault_load
allow_seconds test_fault_load 600
test_fault_load() {
	faults_on
	expedite_rcu
	load_in_turn rest 1 ""
	load_in_turn once 7 ""
	places_note
}

# With more metrics the records are larger, and there is one more probe.
lacks_memory test_fault_load_all
test_fault_load_all() {
	faults_on
	expedite_rcu
	load_in_turn rest 53 "metrics=all precision=7"
	places_note
}

lacks_memory test_fault_enable
test_fault_enable() {
	local how n refused
	faults_on
	expedite_rcu
	load metrics=all precision=7
	for how in rest once; do
		refused=0
		measure 0
		operation write "$debugfs/enable" 1
		for ((n = 1;; n++)); do
			attempt "$how" "$n"
			file enable
			same "enable after errno $errno" "$REPLY" $((!errno))
			if ((errno)); then
				((++refused))
				assert_no_probe
			else
				measure 0
				assert_laws
				((failed)) || break
			fi
		done
		operation_end
		note "$how: $refused of $((n - 1)) times refused"
		within "times refused" 1 "$refused" 100
	done
	unload
	places_note
}

# Removing the probes also works without memory. Others probe the same tracepoints, so that the
# kernel has to allocate shorter lists of probes.
lacks_memory test_fault_off
test_fault_off() {
	local how n event
	faults_on
	expedite_rcu
	for event in "${probed[@]}"; do
		echo 1 > "$tracefs/events/$event/enable"
	done
	load metrics=all
	for how in rest once; do
		operation write "$debugfs/enable" 0
		for ((n = 1;; n++)); do
			measure 1
			attempt "$how" "$n"
			same "errno, $how $n" "$errno" 0
			file enable
			same enable "$REPLY" 0
			assert_no_probe
			assert_laws
			((failed)) || break
		done
		operation_end
		within "failures, $how" 1 $((n - 1)) 100
	done
	unload
	operation unload schedhist
	for how in rest once; do
		for ((n = 1;; n++)); do
			load metrics=all
			attempt "$how" "$n"
			same "errno of unloading, $how $n" "$errno" 0
			assert_no_trace
			((failed)) || break
		done
		within "failures, $how" 1 $((n - 1)) 100
	done
	operation_end
	for event in "${probed[@]}"; do
		echo > "$tracefs/trace"
		/bin/true
		grep -q "${event#*/}:" "$tracefs/trace" || fail "$event is not traced any more"
		echo 0 > "$tracefs/events/$event/enable"
	done
	load
	messages 2
	measure 0
	assert_laws
}

# Either nothing changes, or measuring is off and `enable` shows so.
lacks_memory test_fault_metrics
allow_seconds test_fault_metrics 420
test_fault_metrics() {
	local at_first how n unchanged=0 off=0 before memory
	faults_on
	expedite_rcu
	operation write "$debugfs/metrics" all
	while read -r at_first how; do
		for ((n = 1;; n++)); do
			if ! loaded schedhist; then
				load metrics="$at_first"
				before=$(< "$debugfs/metrics")
				field memory_bytes
				memory=$REPLY
			fi
			attempt "$how" "$n"
			file enable
			if ((errno && REPLY)); then
				same metrics "$(< "$debugfs/metrics")" "$before"
				field memory_bytes
				same "memory for records" "$REPLY" "$memory"
				((++unchanged))
				continue
			fi
			same enable "$REPLY" $((!errno))
			[[ $(< "$debugfs/metrics") == *" wakeup throttled" ]] || fail "metrics: $(< "$debugfs/metrics")"
			if ((errno)); then
				((++off))
				assert_no_probe
			fi
			measure 1
			/bin/true
			measure 0
			# The law for wakeup holds only if the metric was on from the beginning.
			[[ $at_first != none ]] || assert_laws
			unload
			((failed)) || break
		done
	done <<- END
		none rest
		none once
		default rest
	END
	operation_end
	note "$unchanged times nothing changed, $off times measuring was off"
	within "times that nothing changed" 1 "$unchanged" 100
	within "times that measuring was off" 1 "$off" 100
	places_note
}

lacks_memory test_fault_threshold
test_fault_threshold() {
	local how n refused=0
	faults_on
	expedite_rcu
	operation write "$debugfs/threshold_ns/runq" 1000000
	for how in rest once; do
		for ((n = 1;; n++)); do
			loaded schedhist || load
			attempt "$how" "$n"
			file threshold_ns/runq
			if ((errno)); then same threshold "$REPLY" none; else same threshold "$REPLY" 1000000; fi
			field outlier_memory_bytes
			if ((errno)); then
				same "memory for outliers" "$REPLY" 0
				((++refused))
				continue
			fi
			within "memory for outliers" 1 "$REPLY" 10000000
			unload
			((failed)) || break
		done
	done
	operation_end
	note "$refused times refused"
	within "times refused" 1 "$refused" 100
	places_note
}

lacks_memory test_fault_reset
test_fault_reset() {
	local how n before least longest refused=0
	faults_on
	load
	messages 5
	operation write "$debugfs/reset" 1
	for how in rest once; do
		for ((n = 1;; n++)); do
			field switches
			before=$REPLY
			least=$(value hist/oncpu min)
			longest=$(value hist/oncpu max)
			attempt "$how" "$n"
			field switches
			if ((errno)); then
				within switches "$before" "$REPLY" 100000000
				within "the least stay" 1 "$(value hist/oncpu min)" "$least"
				within "the longest stay" "$longest" "$(value hist/oncpu max)" 1000000000000
				((++refused))
				continue
			fi
			within "switches since the reset" 0 "$REPLY" $((before - 1))
			messages 5
			((failed)) || break
		done
	done
	operation_end
	measure 0
	assert_laws
	note "$refused times refused"
	within "times refused" 1 "$refused" 100
	unload
	places_note
}

# A read returns the whole text or fails. The kernel's own allocations fail, too: there are few
# while a file is opened.
lacks_memory test_fault_read
test_fault_read() {
	local file how n wanted refused=0 did_without=0
	faults_on
	load metrics=all
	echo 20 > "$debugfs/outlier_limit"
	echo 1 > "$debugfs/threshold_ns/oncpu"
	messages 5
	echo none > "$debugfs/threshold_ns/oncpu"
	measure 0
	anywhere
	for file in enable metrics threshold_ns/oncpu group_{by,limit,memory_limit} outlier_{rate,limit} on_outlier outliers outlier_pipe status \
			summary openmetrics raw hist/{oncpu,runq} per_cpu/cpu0/{hist/{oncpu,runq},summary,openmetrics}; do
		# The read returns ENODATA, because no outlier can come.
		usual=0
		[[ $file != outlier_pipe ]] || usual=61
		operation read "$debugfs/$file"
		attempt off 0
		wanted=$errno:$bytes:$hash
		for how in rest once; do
			for ((n = 1;; n++)); do
				attempt "$how" "$n"
				if ((errno == ENOMEM)); then
					((++refused))
					continue
				fi
				# The raw file contains the time of the snapshot.
				[[ $file != raw ]] || hash=${wanted##*:}
				same "$file with $how $n" "$errno:$bytes:$hash" "$wanted"
				((failed)) || break
				((++did_without))
			done
		done
		operation_end
	done
	note "$refused times refused, $did_without times it did without"
	within "times refused" 1 "$refused" 10000
	assert_laws
	unload
	places_note
}

# The kernel traces our events: if it fails to enable one, the events stay as they were.
lacks_memory test_fault_events
test_fault_events() {
	local how n refused=0 enable=$tracefs/events/schedhist/enable
	faults_on
	expedite_rcu
	load
	# The kernel expands its buffers to full size when the first event is enabled.
	echo 1 > "$enable"
	echo 0 > "$enable"
	anywhere
	operation write "$enable" 1
	for how in rest once; do
		for ((n = 1;; n++)); do
			attempt "$how" "$n"
			if ((errno)); then ((++refused)); else same "enable of all" "$(< "$enable")" 1; fi
			echo 0 > "$enable"
			same "enable of all" "$(< "$enable")" 0
			((failed)) || break
		done
	done
	operation_end
	note "$refused times refused"
	within "times refused" 1 "$refused" 1000
	measure 0
	assert_laws
	unload
	places_note
}

# A page holds the state of each 64 PIDs. A task without state counts as untracked whenever it runs; the
# next task gets the page that it could not.
test_fault_fork() {
	local before after base=1000000 n
	faults_on
	echo 4194304 > /proc/sys/kernel/pid_max
	load metrics=all
	# 30 switches stand out from the rest of the system's; with a slow timer, too, the operation
	# is short.
	operation fork 30
	for n in 1 2; do
		for how in once "off 0"; do
			((++base))
			field untracked
			before=$REPLY
			if [[ $how == once ]]; then attempt once "$n" "$base"; else attempt off 0 "$base"; fi
			field untracked
			same "PID of the child" "$bytes" "$base"
			same "whether an allocation failed, $how $n" "$failed" $((n == 1 && ${#how} == 4))
			if ((failed)); then
				within "switches that were untracked" 20 $((REPLY - before)) 1000
			else
				within "switches that were untracked" 0 $((REPLY - before)) 10
			fi
		done
		((base += 32768))
	done
	operation_end
	measure 0
	assert_laws
	unload
	places_note
}

# Without memory a sweep leaves all pages in place, and the next sweep frees them.
allow_seconds test_fault_sweep 400
test_fault_sweep() {
	local before swollen pid attr
	faults_on
	echo 4194304 > /proc/sys/kernel/pid_max
	load
	field task_memory_bytes
	before=$REPLY
	# Fails the allocations of every task, except inside fork.
	for attr in "${attrs[@]}"; do
		rejected "$attr" "${fork_code[@]}"
		echo N > "$attr/task-filter"
	done
	operation fork 0
	for ((pid = 1000000; pid < 1000000 + 300 * 64; pid += 64)); do attempt off 0 "$pid"; done
	sleep 2
	for attr in "${attrs[@]}"; do echo Y > "$attr/task-filter"; done
	field task_memory_bytes
	swollen=$REPLY
	within "bytes for tasks" $((before + 300 * 4096)) "$swollen" $((before + 400 * 4096))
	# The next sweep is due at twice as many pages.
	for ((; pid < 1000000 + 700 * 64; pid += 64)); do attempt off 0 "$pid"; done
	operation_end
	sleep 2
	field task_memory_bytes
	note "bytes for tasks: $before, $swollen where no sweep was possible, $REPLY after one"
	within "bytes for tasks" 0 "$REPLY" $((swollen - 1))
	measure 0
	assert_laws
	unload
	places_note
}

# Bringing a CPU online allocates nothing.
test_fault_online() {
	local online=/sys/devices/system/cpu/cpu1/online
	[[ -e $online ]] || skip "$online is not there"
	faults_on
	load
	operation write "$online" 1
	echo 0 > "$online"
	attempt rest 1
	same "whether an allocation failed" "$failed" 0
	operation_end
	same online "$(< "$online")" 1
	measure 0
	assert_laws
}

# Either nothing changes, or measuring is off and `enable` shows so. Without memory for its name a
# group is refused, and the task is in no group of its own.
lacks_memory test_fault_group_by
allow_seconds test_fault_group_by 420
test_fault_group_by() {
	local rule how n unchanged=0 off=0 did_without=0
	faults_on
	expedite_rcu
	for rule in cgroup comm; do
		operation write "$debugfs/group_by" "$rule"
		for how in rest once; do
			for ((n = 1;; n++)); do
				loaded schedhist || load metrics=all
				attempt "$how" "$n"
				file enable
				if ((errno && REPLY)); then
					same group_by "$(< "$debugfs/group_by")" none
					((++unchanged))
					continue
				fi
				same enable "$REPLY" $((!errno))
				same group_by "$(< "$debugfs/group_by")" "$rule"
				if ((errno)); then
					((++off))
					assert_no_probe
				elif ((failed)); then
					((++did_without))
				fi
				measure 1
				/bin/true
				measure 0
				assert_laws
				unload
				# The names of groups repeat a sequence of two.
				((failed && did_without < 8)) || break
			done
		done
		operation_end
	done
	note "$unchanged times nothing changed, $off times measuring was off, $did_without times it did without"
	within "times that nothing changed" 1 "$unchanged" 200
	within "times that measuring was off" 1 "$off" 200
	places_note
}

