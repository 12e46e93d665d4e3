#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The format of each event, as its readers see it.

# shellcheck source=tests/guest/events.bash
. ./events.bash

symbols_of_cause='{ 0, "preempted" }, { 1, "interruptible" }, { 2, "uninterruptible" }, { 3, "stopped" }, '
symbols_of_cause+='{ 4, "dead" }, { 5, "wakeup" }, { 6, "fork" }, { 7, "idle" }, { 8, "throttled" }, '
symbols_of_cause+='{ 9, "idle_wait" }, { 10, "traced" }, { 11, "parked" }, { 12, "frozen" }, { 13, "other" }'
symbols_of_metric='{ 0, "oncpu" }, { 1, "runq_wakeup" }, { 2, "runq_preempt" }, { 3, "blocked_interruptible" }, '
symbols_of_metric+='{ 4, "blocked_uninterruptible" }, { 5, "offcpu" }, { 6, "idle" }, { 7, "wakeup" }, { 8, "throttled" }'

expected_common() {
	cat <<- 'END'
		field:unsigned short common_type; offset:0; size:2; signed:0;
		field:unsigned char common_flags; offset:2; size:1; signed:0;
		field:unsigned char common_preempt_count; offset:3; size:1; signed:0;
		field:int common_pid; offset:4; size:4; signed:1;
	END
}

expected_sample() {
	local ull='(unsigned long long)'
	cat <<- END
		field:u64 duration_ns; offset:8; size:8; signed:0;
		field:pid_t pid; offset:16; size:4; signed:1;
		field:int prio; offset:20; size:4; signed:1;
		field:unsigned int cpu; offset:24; size:4; signed:0;
		field:unsigned int group; offset:28; size:4; signed:0;
		field:char comm[16]; offset:32; size:16; signed:0;
		field:u8 cause; offset:48; size:1; signed:0;
		print fmt: "comm=%s pid=%d prio=%d cpu=%u duration_ns=%llu cause=%s group=%u", REC->comm, REC->pid, REC->prio, REC->cpu, ${ull}REC->duration_ns, __print_symbolic(REC->cause, $symbols_of_cause), REC->group
	END
}

expected_idle() {
	local ull='(unsigned long long)'
	cat <<- END
		field:u64 duration_ns; offset:8; size:8; signed:0;
		field:unsigned int cpu; offset:16; size:4; signed:0;
		field:pid_t next_pid; offset:20; size:4; signed:1;
		field:int next_prio; offset:24; size:4; signed:1;
		field:char next_comm[16]; offset:28; size:16; signed:0;
		print fmt: "cpu=%u duration_ns=%llu next_comm=%s next_pid=%d next_prio=%d", REC->cpu, ${ull}REC->duration_ns, REC->next_comm, REC->next_pid, REC->next_prio
	END
}

expected_outlier() {
	local ull='(unsigned long long)'
	cat <<- END
		field:u64 id; offset:8; size:8; signed:0;
		field:u64 end_ns; offset:16; size:8; signed:0;
		field:u64 duration_ns; offset:24; size:8; signed:0;
		field:u64 start_ns; offset:32; size:8; signed:0;
		field:u64 missing_ns; offset:40; size:8; signed:0;
		field:pid_t pid; offset:48; size:4; signed:1;
		field:int prio; offset:52; size:4; signed:1;
		field:unsigned int cpu; offset:56; size:4; signed:0;
		field:unsigned int culprits; offset:60; size:4; signed:0;
		field:unsigned int group; offset:64; size:4; signed:0;
		field:u8 metric; offset:68; size:1; signed:0;
		field:char comm[16]; offset:69; size:16; signed:0;
		field:u8 cause; offset:85; size:1; signed:0;
		print fmt: "id=%llu metric=%s comm=%s pid=%d prio=%d cpu=%u cause=%s duration_ns=%llu start_ns=%llu end_ns=%llu culprits=%u missing_ns=%llu group=%u", ${ull}REC->id, __print_symbolic(REC->metric, $symbols_of_metric), REC->comm, REC->pid, REC->prio, REC->cpu, __print_symbolic(REC->cause, $symbols_of_cause), ${ull}REC->duration_ns, ${ull}REC->start_ns, ${ull}REC->end_ns, REC->culprits, ${ull}REC->missing_ns, REC->group
	END
}

expected_culprit() {
	local ull='(unsigned long long)'
	cat <<- END
		field:u64 id; offset:8; size:8; signed:0;
		field:u64 ran_ns; offset:16; size:8; signed:0;
		field:pid_t pid; offset:24; size:4; signed:1;
		field:int prio; offset:28; size:4; signed:1;
		field:unsigned int cpu; offset:32; size:4; signed:0;
		field:unsigned int slices; offset:36; size:4; signed:0;
		field:unsigned int group; offset:40; size:4; signed:0;
		field:char comm[16]; offset:44; size:16; signed:0;
		print fmt: "id=%llu comm=%s pid=%d prio=%d cpu=%u ran_ns=%llu slices=%u group=%u", ${ull}REC->id, REC->comm, REC->pid, REC->prio, REC->cpu, ${ull}REC->ran_ns, REC->slices, REC->group
	END
}

# Programs that read a trace take values as numbers: names in the text would be useless to them.
test_event_format() {
	local event expected
	about_texts
	load
	diff <(printf '%s\n' "${events[@]}" | sort) <(sed -n 's/^schedhist://p' "$tracefs/available_events" | sort)
	for event in "${events[@]}"; do
		case $event in
		idle | outlier | culprit) expected=expected_$event ;;
		*) expected=expected_sample ;;
		esac
		diff <(echo "name: $event"; expected_common; "$expected") \
			<(sed -nE '/^ID: |^format:|^$/d; s/^\t//; s/\t/ /g; p' "$(folder "$event")/format") ||
			fail "the format of $event is another"
	done
}
