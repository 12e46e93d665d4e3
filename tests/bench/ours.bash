# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # variables of run
#
# Rows of schedhist, and of C modules to compare it with. Sourced by run.

debugfs=/sys/kernel/debug/schedhist
tracing=/sys/kernel/tracing

# status KEY: prints a value of the file status.
status() { awk -v key="$1" '$1 == key { print $2 }' "$debugfs/status"; }

group_modules() {
	row "C module: empty probes" "insmod $SCHEDHIST_WITH/bench_empty.ko" "rmmod bench_empty"
	row "C module: clock and one log2 bucket" "insmod $SCHEDHIST_WITH/bench_log2.ko" log2_off
	row "C module: as runqlat" "insmod $SCHEDHIST_WITH/bench_runqlat.ko" runqlat_c_off
}

log2_off() {
	seen "$(< /sys/module/bench_log2/parameters/switches)"
	rmmod bench_log2
}

runqlat_c_off() {
	seen "$(< /sys/module/bench_runqlat/parameters/waits)"
	rmmod bench_runqlat
}

# schedhist_on METRICS
schedhist_on() {
	insmod "$SCHEDHIST_KO" metrics="${1// /,}"
}

schedhist_off() {
	seen "$(status switches)"
	rmmod schedhist
}

disabled_on() {
	insmod "$SCHEDHIST_KO"
	echo 0 > "$debugfs/enable"
	switches_before=$(status switches)
}

disabled_off() {
	[[ $(status switches) == "$switches_before" ]] || fail "it counts"
	rmmod schedhist
}

group_metrics() {
	local metric
	row "schedhist: default metrics" "schedhist_on default" schedhist_off
	row "schedhist: disabled" disabled_on disabled_off
	for metric in oncpu runq_wakeup runq_preempt runq blocked_interruptible blocked_uninterruptible \
		offcpu idle wakeup; do
		row "schedhist: $metric alone" "schedhist_on $metric" schedhist_off
	done
	row "schedhist: all metrics but resched" "schedhist_on default,wakeup,throttled" schedhist_off
}

events_again_on() {
	schedhist_on default
	echo 1 > "$tracing/events/schedhist/enable"
	echo 0 > "$tracing/events/schedhist/enable"
}

# event_on EVENT
event_on() {
	schedhist_on default
	echo 1 > "$tracing/events/schedhist/$1/enable"
}

# event_off EVENT
event_off() {
	seen "$(entries)"
	echo 0 > "$tracing/events/schedhist/$1/enable"
	echo > "$tracing/trace"
	rmmod schedhist
}

threshold_on() {
	schedhist_on default
	echo 1000000000000 > "$debugfs/threshold_ns/runq"
}

threshold_off() {
	[[ $(status outliers) == 0 ]] || fail "the threshold was exceeded"
	schedhist_off
}

# long_waits_on LIMIT
long_waits_on() {
	schedhist_on default
	echo "$1" > "$debugfs/long_wait_ns"
}

# chain_on SLICES
chain_on() {
	schedhist_on default
	echo "$1" > "$debugfs/chain"
}

# chain_with_on SETTING VALUE
chain_with_on() {
	chain_on 1024
	echo "$2" > "$debugfs/$1"
}

chain_threshold_on() {
	threshold_on
	echo 1024 > "$debugfs/chain"
}

group_controls() {
	row "schedhist: default, events were listened to before" events_again_on schedhist_off
	row "schedhist: default, ftrace listens to oncpu" "event_on oncpu" "event_off oncpu"
	row "schedhist: default, ftrace listens to runq" "event_on runq" "event_off runq"
	row "schedhist: default, a threshold for runq" threshold_on threshold_off
	row "schedhist: default, long waits, and none is long" "long_waits_on 1000000000000" schedhist_off
	row "schedhist: default, long waits, and all are" "long_waits_on 1" schedhist_off
	row "schedhist: default, chains" "chain_on 1024" schedhist_off
	row "schedhist: default, chains and a threshold for runq" chain_threshold_on threshold_off
	row "schedhist: default, chains and long waits, and none is long" \
		"chain_with_on long_wait_ns 1000000000000" schedhist_off
	row "schedhist: default and wakeup, chains" "chain_with_on metrics default,wakeup" schedhist_off
}

# grouped_on RULE
grouped_on() {
	schedhist_on default
	echo "$1" > "$debugfs/group_by"
}

group_groups() {
	mount_cgroups
	row "schedhist: default, by cgroup" "grouped_on cgroup" schedhist_off
	row "schedhist: default, by comm" "grouped_on comm" schedhist_off
}
