# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # variables for run
#
# The workloads. Each prints the nanoseconds that it took and the context switches meanwhile.
# Sourced by run.

WORKLOADS=(pipe messaging sleepers)

# Programs are run from memory: who reads files in a guest waits for the host, for a time that is
# not the same twice.
memory=/dev/shm/bench
cgroup=$memory/cgroup
pipe_loops=10000

in_memory() { LD_LIBRARY_PATH=$memory "$memory/$1" "${@:2}"; }

# The context switches so far, into ctxt; and into usage the CPU time of all that we have started,
# in microseconds.
now() {
	local key
	while read -r key ctxt _; do
		[[ $key != ctxt ]] || break
	done < /proc/stat
	read -r key usage < "$cgroup/bench/cpu.stat"
}

prepare_workloads() {
	local program
	mkdir -p "$cgroup"
	for program in perf chrt bpftool; do
		cp "$(command -v "$program")" "$memory"
	done
	cp "${SCHEDHIST_WITH:?run this through scripts/vm --with tests/bench/modules}/sleepers" "$memory"
	ldd "$memory"/{perf,chrt} | awk '$3 ~ /^\// { print $3 }' | sort -u | xargs cp -t "$memory"
	mount -t cgroup2 cgroup2 "$cgroup"
	mkdir "$cgroup/bench"
	echo $$ > "$cgroup/bench/cgroup.procs"
	export PERF_CONFIG=/dev/null HOME=$memory
	# The CPU is for the workload alone, and it is never idle.
	echo -1 > /proc/sys/kernel/sched_rt_runtime_us
	# So that those who send have to wait for those who receive.
	echo 4608 > /proc/sys/net/core/wmem_default
	one_switch_a_loop
}

# On one CPU a loop of perf's pipe is one switch: each task writes for the other before it reads.
one_switch_a_loop() {
	local begin
	pipe_once > /dev/null
	now
	begin=$ctxt
	pipe_once > /dev/null
	now
	((ctxt - begin > pipe_loops && ctxt - begin < pipe_loops + pipe_loops / 10)) || {
		echo "# perf bench sched pipe: $((ctxt - begin)) switches in $pipe_loops loops" >&2
		exit 1
	}
}

# The median of three: now and then something else of the kernel's comes in between.
median() {
	{ "$1"; "$1"; "$1"; } | sort -n | sed -n 2p
}

pipe() { median pipe_once; }
messaging() { median messaging_once; }

# Two tasks that take turns. Their start and end are not counted.
pipe_once() {
	in_memory perf bench sched pipe --loop "$pipe_loops" 2> /dev/null |
		awk -v loops="$pipe_loops" '$2 == "usecs/op" { printf "%.0f %d\n", $1 * 1000 * loops, loops }'
}

# 20 tasks that send to each of 20 that receive. Real-time tasks of one priority take turns in the same
# order each time. perf's own clock has milliseconds: count CPU time, start and end included.
messaging_once() {
	local usage_begin ctxt_begin
	now
	usage_begin=$usage ctxt_begin=$ctxt
	in_memory chrt -f 10 "$memory/perf" bench sched messaging --thread --group 1 --nr_loops 300 > /dev/null 2>&1
	now
	echo $(((usage - usage_begin) * 1000)) $((ctxt - ctxt_begin))
}

# 100 threads that sleep over and over, each woken by a timer.
sleepers() { in_memory chrt -f 10 "$memory/sleepers" 100 10000; }
