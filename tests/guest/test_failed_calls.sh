#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Each kernel function that registers an object of ours fails in turn, with an error of its own:
# tests/helpers/fail_call.c makes it fail. The operation fails with that error and leaves nothing
# behind.

# shellcheck source=tests/guest/faults.bash
. ./faults.bash
# shellcheck source=tests/guest/groups.bash
. ./groups.bash

# with_failure NTH COMMAND...: makes the NTH call of the function that fail_call was loaded for
# fail.
with_failure() {
	echo "$1" > /sys/module/fail_call/parameters/nth
	"${@:2}"
}

# load_fails ERROR: asserts that loading fails with this error and leaves nothing behind.
load_fails() {
	fails_with "$1" load
	assert_no_trace
}

enable_fails() {
	fails_with "$1" measure 1
	same enable "$(< "$debugfs/enable")" 0
	assert_no_probe
}

load_works() {
	load
	/bin/true
	measure 0
	assert_laws
	unload
	assert_no_trace
}

seeks_leaks test_failed_calls test_failed_calls_enable test_failed_calls_groups test_failed_calls_rules \
	test_failed_calls_listen

# Fails each call in turn; of the many that create a file, every fifth, unless the run is thorough.
allow_seconds test_failed_calls 600
test_failed_calls() {
	local function result nth step last error files folders
	expedite_rcu
	load
	files=$(find "$debugfs" -type f | wc -l)
	folders=$(find "$debugfs" -type d | wc -l)
	unload
	while read -r function result last step error; do
		[[ -z ${SCHEDHIST_THOROUGH-} ]] || step=1
		load_helper fail_call function="$function" result="$result"
		for ((nth = 1; nth <= last; nth += step)); do
			with_failure "$nth" load_fails "$error"
		done
		with_failure $((last + 1)) load_works
		rmmod fail_call
		note "$function: $last calls, one in $step failed with '$error'"
	done <<- END
		debugfs_create_dir -1 $folders 1 Operation not permitted
		debugfs_create_file_full -12 $files 5 Cannot allocate memory
		for_each_kernel_tracepoint 0 3 1 Unknown symbol
		tracepoint_probe_register -12 3 1 Cannot allocate memory
		__cpuhp_setup_state -28 1 1 No space left on device
		__cpuhp_state_add_instance -16 1 1 Device or resource busy
	END
}

test_failed_calls_enable() { fail_enable 3; }

# Two probes more: of programs that are executed, and of renames or moves.
test_failed_calls_groups() {
	fail_enable 5 group_by=comm
	unload
	fail_enable 5 group_by=cgroup
}

# A rule that follows forks needs two probes more, and one of a cgroup needs one. If they cannot be
# registered, the rule is not added.
test_failed_calls_rules() {
	local rules=$debugfs/group_rules probes add nth number=0
	cgroups_on
	load group_by=list
	load_helper fail_call function=tracepoint_probe_register result=-12
	while read -r probes add; do
		for ((nth = 1; nth <= probes; nth++)); do
			with_failure "$nth" fails_with "Cannot allocate memory" write "$rules" "$add"
			same "number of rules" "$(grep -c '^rule ' "$rules")" "$number"
		done
		with_failure $((probes + 1)) write "$rules" "$add"
		((++number))
		same "number of rules" "$(grep -c '^rule ' "$rules")" "$number"
	done <<- END
		2 add children children 1
		1 add root cgroup /
		0 add named comm *
	END
	rmmod fail_call
	unload
	assert_gone
}

# An event that cannot get the probe that emits it in its context cannot be enabled; nor one that
# then cannot get its own.
test_failed_calls_listen() {
	local nth runq=$tracefs/events/schedhist/runq/enable
	load
	# Recording names of tasks takes probes of its own, and the kernel does not expect them to fail.
	echo 0 > "$tracefs/options/record-cmd"
	trap 'echo 1 > "$tracefs/options/record-cmd"' EXIT
	load_helper fail_call function=tracepoint_probe_register result=-12
	for nth in 1 2; do
		with_failure "$nth" fails_with "Cannot allocate memory" write "$runq" 1
		same "enable of runq" "$(< "$runq")" 0
	done
	with_failure 3 write "$runq" 1
	same "enable of runq" "$(< "$runq")" 1
	echo 0 > "$runq"
	rmmod fail_call
	unload
	assert_gone
}

# fail_enable PROBES PARAMETER...: fails each call in turn while measuring is switched on, which
# registers so many probes.
fail_enable() {
	local function result nth last error
	expedite_rcu
	load metrics=all precision=7 "${@:2}"
	measure 0
	while read -r function result last error; do
		load_helper fail_call function="$function" result="$result"
		for ((nth = 1; nth <= last; nth++)); do
			with_failure "$nth" enable_fails "$error"
		done
		with_failure $((last + 1)) measure 1
		rmmod fail_call
		same enable "$(< "$debugfs/enable")" 1
		measure 0
		assert_laws
	done <<- END
		for_each_kernel_tracepoint 0 $1 No such file or directory
		tracepoint_probe_register -12 $1 Cannot allocate memory
		__cpuhp_setup_state -28 1 No space left on device
		__cpuhp_state_add_instance -16 1 Device or resource busy
	END
}
