# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # said
#
# Tests scripts/bed/check-log. Sourced by run.

# log LINE...: writes a kernel log with a harmless line, then each LINE.
log() {
	printf '[    1.000000] %s\n' "Linux version 7.3.4" "$@" > "$work/kernel.log"
}

log_good() {
	log "x86/mm: Checked W+X mappings: passed" "schedhist: BUGs are no bugs here"
	run 0 scripts/bed/check-log "$work/kernel.log"
	[[ -z $said ]]
}

log_report() {
	log "$1"
	run 1 scripts/bed/check-log "$work/none" "$work/kernel.log"
	says "$1"
}

# Tests make allocations fail, and the kernel logs a stack for each failure.
log_allocation() {
	local head
	for head in "Call Trace:" "Call trace:"; do
		log "insmod: page allocation failure: order:0, mode:0xcc0(GFP_KERNEL)" "$head" " dump_stack+0x1/0x2" "${@:2}"
		run "$1" scripts/bed/check-log "$work/kernel.log"
		run 1 scripts/bed/check-log --allocations "$work/kernel.log"
		says "page allocation failure"
	done
}

# The kernel has many races: only those in which the module takes part count.
log_race() {
	local line='=================================================================='
	log "$line" "BUG: KCSAN: data-race in $1 / rcu_core" "write to 0xffff88807d6360c0 of 8 bytes" \
		" $1+0x5f/0xe0" "CPU: 0 UID: 0 PID: 1 Comm: init Not tainted 7.3.4-schedhist-kcsan #1" "$line"
	run "$2" scripts/bed/check-log "$work/kernel.log"
}

# The bytes around a breakpoint show whether the kernel was patching an instruction there.
log_breakpoint() {
	log "Oops: int3: 0000 [#1] SMP NOPTI" "Code: 95 c2 $1 05 00 00" "Kernel panic - not syncing"
	run "$2" scripts/bed/check-log "$work/kernel.log"
}

# Only the first report shows what went wrong.
log_breakpoint_later() {
	log "WARNING: CPU: 1 PID: 1 at kernel/fork.c:1" "Oops: int3: 0000 [#1]" "Code: 00 cc <93> 05"
	run 1 scripts/bed/check-log "$work/kernel.log"
}

# A race without the module comes first, and does not count.
log_breakpoint_after_race() {
	local line='=================================================================='
	log "$line" "BUG: KCSAN: data-race in tick / tock" "$line" \
		"Oops: int3: 0000 [#1] SMP NOPTI" "Code: 95 c2 00 cc <93> 05 00 00"
	run 3 scripts/bed/check-log "$work/kernel.log"
}

check log/good log_good
check log/warning log_report "WARNING: CPU: 0 PID: 1 at kernel/sched/core.c:1 schedule+0x1/0x2"
check log/oops log_report "Oops: Oops: 0002 [#1] SMP NOPTI"
check log/lockdep log_report "WARNING: possible circular locking dependency detected"
check log/leak log_report "kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)"
check log/leaks-not-sought log_report "kmemleak: Kernel memory leak detector disabled"
check log/preempt-count log_report "softirq: huh, entered softirq 7 SCHED 0x1 with preempt_count 00000101, exited with 00000102?"
check log/stall log_report "rcu: INFO: rcu_preempt self-detected stall on CPU"
check log/stack log_report "Call Trace:"
check log/arm64-fault log_report "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010"
check log/arm64-oops log_report "Internal error: Oops: 0000000096000005 [#1]  SMP"
check log/arm64-bug log_report "Internal error: Oops - BUG: 00000000f2000800 [#1]  SMP"
check log/arm64-stack log_report "Call trace:"
check log/allocation log_allocation 0
check log/allocation-and-stack log_allocation 1 "Call Trace:"
check log/race-of-ours log_race "probe [schedhist]" 1
check log/race-of-others log_race "tick_do_update" 0
check log/breakpoint-in-change log_breakpoint "00 cc <93>" 3
check log/breakpoint-overwritten log_breakpoint "90 0f <1f>" 3
check log/breakpoint-in-padding log_breakpoint "c3 cc <cc>" 1
check log/breakpoint-at-end log_breakpoint "c3 cc <55>" 1
check log/breakpoint-of-nothing log_breakpoint "90 55 <48>" 1
check log/breakpoint-later log_breakpoint_later
check log/breakpoint-after-race log_breakpoint_after_race
