# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # failed, said
#
# Tests tests/next: headers with three changes, as the next kernel may have them, give three findings,
# each with its kind and the one place that depends on it. Sourced by run.

# Runs in the root, whose mounts are its own.
# shellcheck disable=SC2016
next_broken='
set -e
headers=/usr/src/linux-headers-${1%-*}-common
change() {
	sed "$2" "$headers/$1" >"/tmp/${1//\//_}"
	! cmp -s "/tmp/${1//\//_}" "$headers/$1"
	mount --bind "/tmp/${1//\//_}" "$headers/$1"
}
change include/linux/sched.h "s/\<last_queued;/last_queued_ns;/"
change include/trace/events/sched.h "/^TRACE_EVENT(sched_switch,/,/TP_ARGS/s/bool preempt,/int preempt,/"
change include/linux/tracepoint.h "s/\<for_each_kernel_tracepoint(/for_each_core_tracepoint(/"
exec tests/next "/lib/modules/$1/build"'

next_finds() {
	local release
	release=$(scripts/bed/kernel)
	run 1 scripts/bed/root -- bash -c "$next_broken" sh "$release"
	says "does not build for /lib/modules/$release/build: 3 findings"
	grep -Eq 'missing symbol +src/boundary/abstractions/tracepoint.rs:.*for_each_kernel_tracepoint' <<< "$said" &&
		grep -Eq 'changed field +src/boundary/abstractions/task.rs:.*last_queued' <<< "$said" &&
		grep -Eq 'changed prototype +src/boundary/abstractions/glue.c:.*sched_switch' <<< "$said"
}

check next/broken next_finds
