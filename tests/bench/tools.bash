# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2016,SC2154 # what is for ftrace; variables of run
#
# Rows of tools other than schedhist. Sourced by run.

out=$memory/out
pids=()

# The host's clock, in seconds. That of a guest whose clock counts instructions leaps to the next timer
# while a tool waits for a file of the host: minutes of the guest may be a second.
host_clock() { cat /sys/class/rtc/rtc0/since_epoch; }

# For how many seconds of the host's clock a tool may start.
PATIENCE=1800

# await COMMAND...: waits until COMMAND succeeds. Fails if the last tool ends, or takes too long.
await() {
	local file=$out.$((${#pids[@]} - 1)) deadline
	deadline=$(($(host_clock) + PATIENCE))
	until "$@"; do
		if ! kill -0 "${pids[-1]}" 2> /dev/null; then
			fail "it ended before it was ready: $(tail -n 3 "$file" | tr '\n' ' ')"
			return
		fi
		if (($(host_clock) > deadline)); then
			fail "timeout: it was not ready after $PATIENCE s: $(tail -n 3 "$file" | tr '\n' ' ')"
			return
		fi
		sleep 0.2
	done
}

# start READY COMMAND...: starts a tool in the background, and waits until it prints READY.
start() {
	local ready=$1 file=$out.${#pids[@]}
	shift
	: > "$file"
	# Bash makes background processes ignore Ctrl-C.
	env --default-signal=INT PYTHONUNBUFFERED=1 stdbuf -oL "$@" > "$file" 2>&1 &
	pids+=($!)
	await grep -q "$ready" "$file"
}

# Ends the tools with the signal of Ctrl-C.
stop() {
	local pid
	for pid in "${pids[@]}"; do
		kill -INT "$pid" 2> /dev/null || :
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || :
	done
	pids=()
}

# ran NUMBER: asserts that at least this many BPF programs run at each switch, by the kernel's own
# count.
ran() {
	local begin number
	echo 1 > /proc/sys/kernel/bpf_stats_enabled
	now
	begin=$ctxt
	in_memory perf bench sched pipe --loop 1000 > /dev/null 2>&1
	now
	echo 0 > /proc/sys/kernel/bpf_stats_enabled
	number=$(in_memory bpftool prog show | awk -v least=$(((ctxt - begin) * 97 / 100)) '
		{ for (i = 1; i < NF; i++) if ($i == "run_cnt" && $(i + 1) >= least) n++ } END { print n + 0 }')
	# Programs of wakeups may run as often.
	((number >= $1)) || fail "$number of its programs ran at $((ctxt - begin)) switches each, not $1"
}

# counts FILE [all]: asserts that the histogram in the file counts, and with `all` that it counts
# all switches.
counts() {
	local sum
	# "1 -> 3 : 25 |***" or "[1K, 2K) 25 |@@@"
	sum=$(awk '/->.*:/ { sub(/.*: */, ""); n += $1 } /^[[(].*[|]/ { sub(/.*[])] */, ""); n += $1 }
		END { print n + 0 }' "$1")
	if (($# > 1)); then
		seen "$sum"
	else
		((sum > 0)) || fail "its histogram is empty"
	fi
}

# --- our own programs ---

pinned=/sys/fs/bpf/bench

bpf_on() {
	mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
	in_memory bpftool prog loadall "$SCHEDHIST_WITH/$1.bpf.o" "$pinned" autoattach pinmaps "${pinned}_maps"
}

bpf_off() {
	local sum
	# The elements of each CPU's array are in brackets.
	sum=$(in_memory bpftool map dump pinned "${pinned}_maps/cpus" |
		tr -d ' \n' | grep -oE '"runq":\{"bucket":\[[0-9,]*' | sed 's/.*\[//' | tr ',' '\n' |
		awk '{ n += $1 } END { print n + 0 }')
	seen "$sum"
	ran 1
	rm -r "$pinned" "${pinned}_maps"
}

group_bpf() {
	row "BPF of our own: run-queue latency" "bpf_on runq" bpf_off
	row "BPF of our own: run-queue, on-CPU, off-CPU" "bpf_on all" bpf_off
	row "BPF of our own: the same, by sched_info" "bpf_on info" bpf_off
}

# --- libbpf-tools ---

runqlat_on() { start Tracing runqlat-libbpf "$@"; }
# Below the root cgroup, so that it counts all tasks.
runqlat_by_cgroup_on() {
	mount_cgroups
	runqlat_on -c /sys/fs/cgroup
}
runqlat_off() { ran 1; stop; counts "$out.0" all; }
cpudist_on() { start Tracing cpudist-libbpf "$@"; }
cpudist_off() { ran 1; stop; counts "$out.0"; }
# A threshold that no wait reaches, so that it prints nothing.
runqslower_on() { start Tracing runqslower-libbpf 10000000; }
runqslower_off() { ran 1; stop; }

three_on() {
	runqlat_on
	cpudist_on
	cpudist_on -O
}

three_off() { ran 3; stop; counts "$out.0" all; counts "$out.1"; counts "$out.2"; }

group_libbpf() {
	row "runqlat (libbpf-tools)" runqlat_on runqlat_off
	row "runqlat -P (libbpf-tools)" "runqlat_on -P" runqlat_off
	row "runqlat -c (libbpf-tools)" runqlat_by_cgroup_on runqlat_off
	row "cpudist (libbpf-tools)" cpudist_on cpudist_off
	row "cpudist -O (libbpf-tools)" "cpudist_on -O" cpudist_off
	row "runqslower (libbpf-tools)" runqslower_on runqslower_off
}

group_three() {
	row "runqlat, cpudist and cpudist -O at once" three_on three_off
}

# --- BCC and bpftrace ---

bcc_on() { start Tracing python3 ../bcc_tool.py "$(command -v runqlat-bpfcc)"; }
group_bcc() { row "runqlat (BCC)" bcc_on runqlat_off; }

bpftrace_on() { start Tracing runqlat.bt; }
group_bpftrace() { row "runqlat.bt (bpftrace)" bpftrace_on runqlat_off; }

# --- ftrace ---

# Prints how many events were written, whether or not they are still there.
entries() {
	awk '/^(entries|overrun):/ { n += $2 } END { print n }' "$tracing"/per_cpu/cpu0/stats
}

latency='wakeup_latency u64 lat; pid_t pid'
begin='hist:keys=pid:ts0=common_timestamp'
end='hist:keys=next_pid:lat=common_timestamp-$ts0'
end+=':onmatch(sched.sched_wakeup).wakeup_latency($lat,next_pid)'
histogram='hist:keys=lat.log2'

hist_on() {
	echo "$latency" >> "$tracing/synthetic_events"
	echo "$begin" >> "$tracing/events/sched/sched_wakeup/trigger"
	echo "$end" >> "$tracing/events/sched/sched_switch/trigger"
	echo "$histogram" >> "$tracing/events/synthetic/wakeup_latency/trigger"
}

hist_off() {
	seen "$(awk '$1 == "Hits:" { print $2 }' "$tracing/events/synthetic/wakeup_latency/hist")"
	echo "!$histogram" >> "$tracing/events/synthetic/wakeup_latency/trigger"
	echo "!$end" >> "$tracing/events/sched/sched_switch/trigger"
	echo "!$begin" >> "$tracing/events/sched/sched_wakeup/trigger"
	echo "!$latency" >> "$tracing/synthetic_events"
}

events_on() {
	echo > "$tracing/trace"
	echo 1 > "$tracing/events/sched/sched_wakeup/enable"
	echo 1 > "$tracing/events/sched/sched_switch/enable"
}

events_off() {
	echo 0 > "$tracing/events/sched/sched_switch/enable"
	echo 0 > "$tracing/events/sched/sched_wakeup/enable"
	local count
	count=$(entries)
	((count >= counted * 17 / 10)) || fail "$count events of $counted switches and their wakeups"
	echo > "$tracing/trace"
}

group_ftrace() {
	row "ftrace: hist trigger, synthetic wakeup_latency" hist_on hist_off
	row "ftrace: sched_switch and sched_wakeup" events_on events_off
}

# --- perf ---

# record_on ARGUMENT...: starts perf, with a real-time priority, so that it can write out its buffers
# while real-time tasks fill them. perf starts its command when it is ready.
record_on() {
	LD_LIBRARY_PATH=$memory env --default-signal=INT "$memory/perf" "$@" -r 20 --synth=no \
		-o "$memory/perf.data" sleep 100000 > "$out.0" 2>&1 &
	pids+=($!)
	await pgrep -fx "sleep 100000" > /dev/null
}

# record_off TENTHS: asserts that perf has recorded at least so many tenths of the switches.
record_off() {
	local count
	stop
	count=$(sed -nE 's/.*\(([0-9]+) samples\).*/\1/p' "$out.0")
	((${count:-0} >= counted * $1 / 10)) || fail "${count:-no} samples of $counted switches: $(tail -n 2 "$out.0")"
	rm -f "$memory/perf.data"
}

group_perf() { row "perf sched record" "record_on sched record" "record_off 17"; }

# --- stacks of those that sleep ---

offcputime_on() { start Tracing offcputime-libbpf; }
offcputime_off() {
	ran 1
	stop
	# A stack ends in "-    NAME (PID)" and the time in microseconds.
	grep -qE '^ +[0-9]+$' "$out.0" || fail "it has no stack"
}

profile_on() {
	schedhist_on default
	record_on record -a -g -e schedhist:offcpu
}
profile_off() {
	record_off 8
	rmmod schedhist
}

by_stack='hist:keys=common_stacktrace:vals=duration_ns'
by_stack_on() {
	schedhist_on default
	echo "$by_stack" > "$tracing/events/schedhist/offcpu/trigger"
}
by_stack_off() {
	local count
	count=$(awk '$1 == "Hits:" { print $2 }' "$tracing/events/schedhist/offcpu/hist")
	((count >= counted * 8 / 10)) || fail "${count:-no} hits of $counted switches"
	echo "!$by_stack" > "$tracing/events/schedhist/offcpu/trigger"
	rmmod schedhist
}

group_stacks() {
	row "offcputime (libbpf-tools)" offcputime_on offcputime_off
	row "schedhist: hist trigger by stack on offcpu" by_stack_on by_stack_off
	row "schedhist: perf record -g -e schedhist:offcpu" profile_on profile_off
}

# --- who woke those that sleep ---

offwaketime_on() { start Tracing python3 ../bcc_tool.py "$(command -v offwaketime-bpfcc)"; }
offwaketime_off() {
	ran 1
	stop
	grep -q '^ *waker: ' "$out.0" || fail "it has no waker"
}

group_wakers() { row "offwaketime (BCC)" offwaketime_on offwaketime_off; }
