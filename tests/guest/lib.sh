#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Helpers that the tests in the guest share. Sourced by tests/guest/run, which sets $work, a
# directory that holds $ko, the module, on a fast file system.

debugfs=/sys/kernel/debug/schedhist
tracefs=/sys/kernel/tracing
event=$tracefs/events/schedhist/oncpu
ko=${work:?}/schedhist.ko
# All metrics with a histogram, in the order of the summary; the last two are off by
# default.
# shellcheck disable=SC2034 # for the tests
metrics=(oncpu runq runq_wakeup runq_preempt blocked_interruptible blocked_uninterruptible offcpu
	idle wakeup throttled)
# The tracepoints that the module probes while tasks are not grouped and nobody listens.
# shellcheck disable=SC2034 # for the tests
probed=(sched/sched_switch sched/sched_waking task/task_newtask)

# The kernel's name, if it is a kernel of ours: debug, cfi, rt-debug, kcsan, uml. The last one checks
# as much as debug does, but runs at the speed of the host: it is no debug_kernel.
release=$(uname -r)
own_kernel='' debug_kernel=''
[[ $release != *-schedhist-* ]] || own_kernel=${release##*-schedhist-}
[[ $own_kernel == uml ]] || debug_kernel=$own_kernel

# allow_seconds TEST SECONDS: sets the time limit of a test that needs more than most. A busy host
# makes tests slow, so they get twice the limit; a debug kernel checks everything, so there they get
# five times the limit.
declare -A limit
allow_seconds() { limit[$1]=$2; }
# seconds_for TEST: sets REPLY to its time limit.
seconds_for() { REPLY=$((${limit[$1]-300} * (${#debug_kernel} ? 5 : 2))); }

skip() {
	printf '%s\n' "$*" > "$work/skip"
	exit 77
}

# is_beyond KERNEL WHY: skips the test, or fails it on KERNEL, the kernel of ours that is built for
# it.
is_beyond() {
	[[ $debug_kernel != "$1" ]] || fail "${*:2}"
	skip "${*:2}"
}

# not_on_debug REASON: skips the test on a debug kernel.
not_on_debug() { [[ -z $debug_kernel ]] || skip "$*"; }

# For accuracy tests: a debug kernel adds nothing.
about_numbers() {
	not_on_debug "whether the numbers are true does not depend on what the kernel checks"
	needs clock
}

# For tests that check the text of files with hundreds of processes, and use the module little: on
# a debug kernel it takes a second to start one process.
about_texts() { not_on_debug "what the kernel's files of events say does not depend on what it checks"; }

# has_clock: returns whether local_clock() has nanoseconds, and not only ticks.
has_clock() { ! grep -qE '^sched_clk .*0\.000000$' /sys/kernel/debug/sched/debug; }

# needs THING...: skips the test unless the kernel has the features and the root the programs that
# it uses: clock, hist (triggers), perf, bpftrace, or any other program.
needs() {
	local thing
	for thing; do
		case $thing in
		clock) has_clock || skip "the kernel's local_clock() counts ticks" ;;
		hist) [[ -e $tracefs/events/sched/sched_switch/hist ]] || skip "the kernel has no hist triggers" ;;
		*) [[ -n $(command -v "$thing") ]] || skip "there is no $thing" ;;
		esac
		case $thing in
		perf | bpftrace)
			[[ -e /proc/sys/kernel/perf_event_paranoid ]] ||
				skip "the kernel has no perf events, which $thing needs"
			;;
		esac
	done
}

fail() {
	printf '%s\n' "$*" >&2
	exit 1
}

note() { printf '# %s\n' "$*"; }

# same WHAT FOUND WANTED
same() { [[ $2 == "$3" ]] || fail "$1: found '$2', wanted '$3'"; }

# within WHAT LOW VALUE HIGH
within() { (($2 <= $3 && $3 <= $4)) || fail "$1: $3 is not within $2 to $4"; }

# fails_with TEXT COMMAND...: asserts that the command fails and prints TEXT.
fails_with() {
	local text=$1 said
	shift
	if said=$("$@" 2>&1); then
		fail "'$*' did not fail"
	fi
	[[ $said == *"$text"* ]] || fail "'$*' failed with '$said', wanted '$text'"
}

# write FILE TEXT: for fails_with.
write() { echo "$2" > "$1"; }

# --- the module ---

load() { insmod "$ko" "$@"; }
unload() { rmmod schedhist; }
loaded() { [[ -d /sys/module/$1 ]]; }
measure() { echo "$1" > "$debugfs/enable"; }

# helper NAME: copies one of tests/helpers into $work. Skips the test if there are none.
helper() {
	[[ -n ${SCHEDHIST_WITH-} ]] || skip "it needs scripts/bed/vm --with tests/helpers"
	[[ -e $SCHEDHIST_WITH/$1 ]] || skip "the kernel has no kprobes, which $1 needs"
	[[ -e $work/$1 ]] || cp "$SCHEDHIST_WITH/$1" "$work"
}

# load_helper MODULE PARAMETER=VALUE...
load_helper() {
	helper "$1.ko"
	insmod "$work/$1.ko" "${@:2}"
}

# parameter MODULE NAME: prints its value.
parameter() { echo "$(< "/sys/module/$1/parameters/$2")"; }

# Asserts that the module has left nothing behind.
assert_gone() {
	! loaded schedhist || fail "the module is still loaded"
	[[ ! -e $debugfs ]] || fail "$debugfs is still there"
	[[ ! -e $tracefs/events/schedhist ]] || fail "the trace events are still there"
}

# Prints the IDs of all tasks, threads included.
task_ids() {
	local all=(/proc/[0-9]*/task/[0-9]*)
	printf '%s\n' "${all[@]##*/}"
}

# status KEY, status cpuN KEY: prints a value of the status file.
status() {
	awk -v key="$*" '
		NF == 2 && $1 == key || NF == 3 && $1 " " $2 == key { print $NF; found = 1; exit }
		END { exit !found }
	' "$debugfs/status"
}

# waits_for COMMAND...: waits until it succeeds. Fails after four minutes, which a busy host does not
# need; kernels of ours get five times as long.
waits_for() {
	local end=$((SECONDS + 240 * (${#debug_kernel} ? 5 : 1)))
	until "$@"; do
		((SECONDS < end)) || fail "waited too long for: $*"
		sleep 0.1
	done
}

# holds FILE TEXT: whether this is all it has.
holds() { [[ $(< "$1") == "$2" ]]; }

# let_count KEY NUMBER: waits, up to 50 s, until a counter of `status` is at least NUMBER. On a busy
# host that takes long. The caller asserts what it wants.
let_count() {
	for _ in {1..100}; do
		(($(status "$1") < $2)) || return 0
		sleep 0.5
	done
}

# value FILE KEY: prints the value of KEY in a histogram file.
value() { awk -v key="$2" '$1 == key { print $2 }' "$debugfs/$1"; }

possible_cpus() {
	awk -F, '{
		for (i = 1; i <= NF; i++) {
			n = split($i, range, "-")
			for (cpu = range[1]; cpu <= range[n]; cpu++) print cpu
		}
	}' /sys/devices/system/cpu/possible
}

# assert_laws [KEY=VALUE...]: asserts that everything adds up, on each CPU and over all. Only exact
# while measuring is off.
assert_laws() { python3 -SE laws.py "$@"; }

# above_1ns: prints the number of samples above 1 ns since the last reset. Values this small have a
# bucket each.
above_1ns() {
	local metric
	for metric in "${metrics[@]}"; do
		[[ $metric == runq ]] || cat "$debugfs/hist/$metric"
	done | awk '$1 == "bucket" && $2 > 1 { n += $4 } END { print n + 0 }'
}

# --- the kernel log ---

# lacks_memory TEST: marks a test that makes allocations fail, which the kernel logs with a stack.
declare -A lacking
lacks_memory() { lacking[$1]=1; }

# seeks_leaks TEST...: marks tests after which to look for leaks at once, not only when the guest
# ends: if the guest ends early, the tests that have passed are not repeated.
declare -A seeking
# shellcheck disable=SC2034 # for run
seeks_leaks() {
	local test
	for test; do seeking[$test]=1; done
}

mark_log() { printf 'schedhist-test: %s\n' "$1" > /dev/kmsg; }

# is_marked NAME: returns whether the log still holds everything since mark_log NAME.
is_marked() { dmesg | grep -c " schedhist-test: $1\$" > /dev/null; }

# after_mark NAME: prints the part of a log after the last mark_log NAME.
after_mark() {
	awk -v mark="schedhist-test: $1" '
		substr($0, length($0) - length(mark)) == " " mark { on = 1; n = 0; next }
		on { line[++n] = $0 }
		END { for (i = 1; i <= n; i++) print line[i] }
	'
}

without_stamps() { sed -E 's/^\[ *[0-9]+\.[0-9]+\](\[ *[TC][0-9]+\])? //'; }

# log_since NAME: prints the kernel log after the last mark_log NAME, without time stamps.
log_since() { dmesg | after_mark "$1" | without_stamps; }

# take_log: moves the kernel log into $work/log. This clears the log: searching megabytes takes
# seconds.
take_log() { dmesg --syslog --read-clear > "$work/log"; }

# log_is_clean TEST: returns whether $work/log holds the mark of the test and no line of a report,
# by one search.
pattern=()
log_is_clean() {
	local allocations=(--allocations) found
	[[ -z ${lacking[$1]-} ]] || allocations=()
	if [[ -z ${pattern[${#allocations[@]}]-} ]]; then
		pattern[${#allocations[@]}]=$(../../scripts/bed/check-log "${allocations[@]}" --pattern)
	fi
	found=$(grep -aE -- " schedhist-test: $1\$|${pattern[${#allocations[@]}]}" "$work/log") || :
	[[ $found == *" schedhist-test: $1" && $found != *$'\n'* ]]
}

# reports_of TEST: prints the reports in $work/log since mark_log TEST, and fails if there is none.
reports_of() {
	local allocations=(--allocations)
	grep -qa -- " schedhist-test: $1\$" "$work/log" || {
		echo "the log has lost its beginning"
		return
	}
	[[ -z ${lacking[$1]-} ]] || allocations=()
	after_mark "$1" < "$work/log" > "$work/since"
	! ../../scripts/bed/check-log "${allocations[@]}" "$work/since" 2>&1
}

# log_so_far TEST: asserts that there is no report in the log since the test began, or since this was
# called last, and clears the log. For tests that fill it.
log_so_far() {
	take_log
	log_is_clean "$1" || fail "the kernel log: $(reports_of "$1")"
	keep_log
	mark_log "$1"
}

# keep_log: appends $work/log to the log that scripts/bed/vm keeps, if it keeps one.
keep_log() {
	local lines
	[[ -n ${SCHEDHIST_LOG-} ]] || return 0
	# Copies a short log without starting a process.
	mapfile -t -n 1000 lines < "$work/log"
	if ((${#lines[@]} == 1000)); then
		cat "$work/log"
	elif ((${#lines[@]})); then
		printf '%s\n' "${lines[@]}"
	fi >> "$SCHEDHIST_LOG"
}

# our_lines NAME: prints the lines that the module has logged since mark_log NAME.
our_lines() { log_since "$1" | grep '^schedhist: ' || true; }

# log_is_quiet 1, log_is_quiet 0: keeps the log off the slow console while thousands of inputs are
# refused, each with a line. A warning panics the guest at once, before it is lost among these
# lines.
log_is_quiet() {
	case $1 in
	1)
		echo N > /sys/module/printk/parameters/ignore_loglevel
		dmesg --console-level 1
		# KCSAN reports a race in the kernel's own code as a warning, too.
		[[ $debug_kernel == kcsan ]] || echo 1 > /proc/sys/kernel/panic_on_warn
		;;
	0)
		echo 0 > /proc/sys/kernel/panic_on_warn
		dmesg --console-level 7
		echo Y > /sys/module/printk/parameters/ignore_loglevel
		;;
	esac
}

# bad_input FILE...: asserts that these files refuse all bad input. Writes the lines logged since
# mark_log bad_input to $work/lines, and for each file the expected number of lines and its path to
# $work/refused.
bad_input() {
	log_is_quiet 1
	trap 'log_is_quiet 0' EXIT
	python3 -SE bad_input.py "${@/#/$debugfs/}" > "$work/refused"
	log_is_quiet 0
	our_lines bad_input > "$work/lines"
}

# --- a workload in the background ---

# messages LOOPS [GROUPS]: in each group twenty processes send LOOPS messages to each of twenty
# others, as perf bench sched messaging does. But perf takes half a minute to start on a kernel that
# checks every access. The tests themselves run at a high priority, so that the load does not starve
# them.
messages() { nice -n 20 hackbench --groups "${2-1}" --loops "$1" > /dev/null; }

# yielding COMMAND...: executes it in a session of its own, which gets a tenth of the CPU time that the
# session of the tests gets: it is to disturb them, not to stop them. What counts between sessions is
# the nice value of the autogroup; that of a process counts where the kernel has no autogroups. The
# autogroup's can be set only after setsid(): before, it is that of the tests.
yielding() {
	# shellcheck disable=SC2016 # for the other shell
	exec nice -n 20 setsid sh -c '[ ! -e /proc/self/autogroup ] || echo 10 > /proc/self/autogroup
		exec "$@"' sh "$@"
}

# workload_start [COMMAND...]: runs it until workload_stop; by default many short messages between
# processes, on all CPUs. It runs in a session of its own, so that all its processes can be ended at
# once.
workload_start() {
	(($#)) || set -- hackbench --groups 1 --loops 100000000
	yielding "$@" > /dev/null 2>&1 &
	echo $! > "$work/workload"
}

# The same in bursts. Patching code or waiting for a grace period, as loading does, waits for all
# CPUs in turn, which takes seconds on a machine that is busy all the time.
workload_start_bursts() {
	workload_start bash -c \
		'while :; do hackbench --groups 1 --loops 2; sleep 0.3; done'
}

workload_stop() {
	[[ -e $work/workload ]] || return 0
	kill_group "$(< "$work/workload")"
	rm "$work/workload"
}

# kill_group PGID: kills a process group whose leader is a child of this shell, and waits until no
# process of it is left. The signal gets to all of them at once, those that are forked meanwhile
# included; and nothing looks through /proc, which takes long amid a storm.
kill_group() {
	kill -KILL -- "-$1" 2> /dev/null || true
	wait "$1" 2> /dev/null || true
	while kill -0 -- "-$1" 2> /dev/null; do sleep 0.1; done
}

# Prints the number of processes.
count_processes() {
	local all=(/proc/[0-9]*)
	echo "${#all[@]}"
}

# Loading and unloading wait for RCU grace periods, as does each change of an event's filter: with
# short ones, many of them fit. They are slow on kernels of ours.
expedite_rcu() { echo 1 > /sys/kernel/rcu_expedited; }
rcu_as_usual() { echo $((${#debug_kernel} > 0)) > /sys/kernel/rcu_expedited; }

# rm_if_there FILE...: starts rm only if one of them exists.
rm_if_there() {
	local file
	for file; do
		if [[ -e $file ]]; then
			rm -rf "$@"
			return
		fi
	done
}

# --- after each test ---

tracing_reset() {
	local event instance
	for instance in "$tracefs"/instances/schedhist*; do
		[[ ! -d $instance ]] || rmdir "$instance"
	done
	for event in "$tracefs"/events/schedhist/*/; do
		# Opening the file for writing removes all triggers.
		[[ ! -e $event/trigger ]] || : > "$event/trigger"
		[[ ! -e $event/filter ]] || echo 0 > "$event/filter"
	done
	echo 0 > "$tracefs/events/enable"
	echo 1 > "$tracefs/tracing_on"
	echo 0 > "$tracefs/snapshot"
	echo > "$tracefs/trace"
}

background_stop() {
	local pid
	[[ -e $work/background ]] || return 0
	for pid in $(< "$work/background"); do
		kill -KILL "$pid" 2> /dev/null || true
		while [[ -e /proc/$pid ]]; do sleep 0.1; done
	done
	rm -rf "$work"/background* "$work"/perf.* "$work"/bpftrace.*
}

# Ends all processes and removes all files that a test left behind.
cleanup() {
	local module
	workload_stop
	background_stop
	rcu_as_usual
	# Only kernels of ours can make allocations fail.
	if [[ -e /sys/kernel/debug/failslab ]]; then
		# shellcheck source=tests/guest/faults.bash
		. ./faults.bash
		faults_off
	fi
	if [[ -e $work/cgroups ]]; then
		# shellcheck source=tests/guest/groups.bash
		. ./groups.bash
		cgroups_off
	fi
	tracing_reset
	for module in fail_call schedhist schedhisu selfwake hold states churn; do
		! loaded "$module" || rmmod "$module"
	done
	rm_if_there "$work"/{before,after}
	assert_gone
}
