# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # variables for run
#
# The workloads. Each prints the nanoseconds that it took, and the context switches meanwhile.
# Sourced by run.

WORKLOADS=(pipe messaging sleepers)

# Programs are run from memory: reading files in a guest waits for the host, for a time that varies.
memory=/dev/shm/bench

in_memory() { LD_LIBRARY_PATH=$memory "$memory/$1" "${@:2}"; }

# perf_bench TIMES COMMAND...: prints the cost of perf bench sched between two of its reads, as
# nanoseconds and switches: the median, as the kernel's other work interferes now and then.
perf_bench() {
	local said each=$'[0-9]+ [0-9]+(\n|$)'
	said=$(STAMP_TIMES=$1 LD_LIBRARY_PATH=$memory LD_PRELOAD=$memory/perf_stamps.so "${@:2}" \
		3>&1 > /dev/null 2>&1)
	# The number of reads is constant for one version of perf.
	[[ $said =~ ^($each){$1}$ ]] || {
		echo "# ${*:2}: was not measured between two reads $1 times: $said" >&2
		return 1
	}
	sort -n <<< "$said" | sed -n "$((($1 + 1) / 2))p"
}

# Sets ctxt to the context switches so far.
now() {
	local key
	while read -r key ctxt _; do
		[[ $key != ctxt ]] || break
	done < /proc/stat
}

prepare_workloads() {
	local program file
	mkdir -p "$memory"
	for program in perf chrt bpftool; do
		cp "$(command -v "$program")" "$memory"
	done
	cp "${SCHEDHIST_WITH:?run this through scripts/bed/vm --with tests/bench/modules}"/{sleepers,perf_stamps.so} \
		"$memory"
	ldd "$memory"/{perf,chrt} | awk '$3 ~ /^\// { print $3 }' | sort -u | xargs cp -t "$memory"
	export PERF_CONFIG=/dev/null HOME=$memory
	# Only the workload uses the CPU, which is never idle.
	echo -1 > /proc/sys/kernel/sched_rt_runtime_us
	# Addresses decide which data share a page: they change the cost of messaging by up to 5
	# instructions.
	echo 0 > /proc/sys/kernel/randomize_va_space
	# Caches keep their empty slabs. Else they give them back to the page allocator while they have some
	# others that are partly used, and how many these are changes at some moment, for good: on 6.12,
	# messaging then takes up to a seventh less.
	for file in /sys/kernel/slab/*/min_partial; do
		echo 1000 > "$file"
	done
	# With a small buffer, the senders have to wait for the receivers.
	echo 4608 > /proc/sys/net/core/wmem_default
}

# Two tasks that take turns. On one CPU a loop is one switch: each task writes for the other before
# it reads. They are real-time tasks: the fair class takes different paths, which differ by some 90
# instructions, depending on how long a turn takes.
pipe() {
	local said
	said=$(STAMP_READS=200,2200 perf_bench 9 "$memory/chrt" -f 10 "$memory/perf" bench sched pipe --loop 2500)
	((${said#* } >= 2000 && ${said#* } < 2200)) || {
		echo "# perf bench sched pipe: not 2000 switches in 2000 loops, but ${said#* }" >&2
		return 1
	}
	echo "$said"
}

# 20 tasks that send to each of 20 that receive, 400 messages a loop. Real-time tasks of one
# priority take turns in the same order each time.
messaging() {
	STAMP_READS=1000,21000 perf_bench 3 \
		"$memory/chrt" -f 10 "$memory/perf" bench sched messaging --thread --group 1 --nr_loops 55
}

# 100 threads that sleep repeatedly, each woken by a timer.
sleepers() { in_memory chrt -f 10 "$memory/sleepers" 100 60000; }
