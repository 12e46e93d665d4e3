# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Programs that listen to all our trace events, in the background. Sourced by tests.
#
# *_start runs one, *_wait waits until it listens. None of them looks up symbols in the kernel or in
# programs, which takes a minute.

# background COMMAND...: runs it, at most until the test is over; its PID is $!.
background() {
	"$@" > "$work/background.$1" 2>&1 &
	echo $! >> "$work/background"
}

# Prefix for a command: runs it in a mount namespace where the kernel shows no symbols. There are
# 200000, which perf and trace-cmd read, some of them twice, for many seconds on an emulated
# machine; no test needs one.
# shellcheck disable=SC2016 # for the other shell
no_symbols=(unshare --mount bash -c 'mount --bind /dev/null /proc/kallsyms && exec "$@"' sh)

# interrupt PID: interrupts it as from the keyboard, and waits for its end.
interrupt() {
	kill -INT "$1"
	wait "$1" || true
}

perf_start() {
	mkfifo "$work/perf.control" "$work/perf.ack"
	exec "${no_symbols[@]}" perf record -q -a -e 'schedhist:*' -m 1024 --no-buildid --no-buildid-cache -D -1 \
		--control "fifo:$work/perf.control,$work/perf.ack" -o "$work/perf.data"
}

perf_wait() {
	local answer
	waits_for test -p "$work/perf.ack"
	echo enable > "$work/perf.control"
	read -r answer < "$work/perf.ack"
	same "what perf answers" "$answer" ack
}

trace_cmd_start() {
	exec "${no_symbols[@]}" trace-cmd record -q -B schedhist_trace_cmd -b 8192 -e schedhist -o "$work/trace.dat"
}

trace_cmd_wait() {
	local folder=$tracefs/instances/schedhist_trace_cmd
	waits_for grep -qsx 1 "$folder/events/schedhist/enable"
	waits_for grep -qsx 1 "$folder/tracing_on"
}

# bpftrace_run ARGUMENT...: runs it until bpftrace_end. The program that it starts begins once all
# probes are attached. For a kernel without BTF it needs the headers. virtme-ng mounts an empty folder
# over that of their source.
bpftrace_run() {
	mkfifo "$work/bpftrace.on" "$work/bpftrace.off"
	cat > "$work/bpftrace.child" <<- END
		echo on > $work/bpftrace.on
		read -r _ < $work/bpftrace.off
	END
	if [[ ! -e /sys/kernel/btf/vmlinux ]]; then
		BPFTRACE_KERNEL_BUILD=/lib/modules/$(uname -r)/build
		export BPFTRACE_KERNEL_BUILD BPFTRACE_KERNEL_SOURCE=$BPFTRACE_KERNEL_BUILD/source
		! mountpoint -q /var/cache || umount /var/cache
	fi
	exec bpftrace -q "$@" -c "/bin/bash $work/bpftrace.child"
}

# bpftrace_start PROBE...: counts the events of each probe; all our events by default. There is a map
# for each event: a map with keys may lose a count when several CPUs add a new key at once.
bpftrace_start() {
	local probe program=''
	(($#)) || set -- "${events[@]/#/tracepoint:schedhist:}"
	for probe; do
		program+="$probe { @${probe##*:} = count(); } "
	done
	bpftrace_run -e "$program"
}

bpftrace_is_on() {
	kill -0 "$bpftrace" || fail "bpftrace has ended: $(tail -n 5 "$work"/background.bpftrace*)"
	read -r -t 1 _
}

# Waits until $bpftrace listens. The FIFO is opened for both directions, as a reader alone waits for a
# writer that may never come.
bpftrace_wait() {
	waits_for test -p "$work/bpftrace.on"
	waits_for bpftrace_is_on <> "$work/bpftrace.on"
}

# bpftrace_missed PID: prints how many events its programs have missed: the kernel runs no program of BPF
# while another one, or a system call on maps, goes on on the CPU. It does not give such an event to
# perf either, if a program listens to it.
bpftrace_missed() {
	awk '$1 == "recursion_misses:" { n += $2 } END { print n + 0 }' "/proc/$1/fdinfo/"*
}

bpftrace_end() {
	echo > "$work/bpftrace.off"
	wait "$1"
}

bpftrace_count() {
	sed -nE "s/^@$1: ([0-9]+)$/\1/p" "$work/background.bpftrace_start"
}
