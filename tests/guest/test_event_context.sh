#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016,SC2154 # for other shells; variables of lib.sh
#
# In whose context events are: whatever a listener takes from the context is of the task that the
# event is about. With a victim that sleeps in known ways, a hog and a storm.

# shellcheck source=tests/guest/events.bash
. ./events.bash
# shellcheck source=tests/guest/users.bash
. ./users.bash
# shellcheck source=tests/guest/groups.bash
. ./groups.bash

# The events of the task that gets the CPU.
incoming=runq,offcpu,blocked,wakeup

# victim_start HELPER [ARGUMENT]: runs it, naps or waits, and sets $victim.
victim_start() {
	helper "$1"
	mkfifo "$work/background.in"
	"$work/$1" "${@:2}" < "$work/background.in" > "$work/background.$1" &
	victim=$!
	echo "$victim" >> "$work/background"
	exec {victim_in}> "$work/background.in"
	waits_for holds "/proc/$victim/comm" "$1"
	# So that the child of naps is not born in the cgroup that the victim will be moved to.
	[[ $1 != naps ]] || waits_for pgrep --parent "$victim" > "$work/victim.child"
}

# Waits until the victim has said how long it slept or waited.
victim_end() {
	exec {victim_in}>&-
	wait "$victim"
}

# A hog on each CPU, and a storm of messages.
others_start() {
	rm -f "$work/others"
	workload_start bash -c 'for cpu in 0 1; do taskset --cpu-list "$cpu" bash -c "while :; do :; done" & done
		hackbench --groups 1 --loops 2
		: > "$0"
		while :; do sleep 0.3; hackbench --groups 1 --loops 2; done' "$work/others"
	waits_for test -e "$work/others"
}

# window SECONDS: measures for so long.
window() {
	measure 1
	sleep "$1"
	measure 0
}

# ftrace: the records themselves, set_event_pid, the stacks of hist triggers and of outliers.
test_context_ftrace() {
	local pids=$tracefs/instances/schedhist_pids event
	needs hist
	load metrics=all
	measure 0
	victim_start naps
	others_start
	outliers_of offcpu
	echo 10000000 > "$debugfs/threshold_ns/offcpu"
	instance_open "${events[@]}"
	echo "hist:keys=common_stacktrace:vals=duration_ns if pid == $victim" > "$instance/events/schedhist/offcpu/trigger"
	echo 'hist:keys=common_pid,pid:size=4096' > "$instance/events/schedhist/runq/trigger"
	echo "stacktrace if pid == $victim" > "$instance/events/schedhist/outlier/trigger"
	mkdir "$pids"
	echo "$victim" > "$pids/set_event_pid"
	for event in ${incoming//,/ }; do echo 1 > "$pids/events/schedhist/$event/enable"; done
	window 4
	nothing_lost "$instance"
	cat "$instance/trace" > "$work/ftrace"
	cat "$pids/trace" > "$work/set_event_pid"
	cat "$instance/events/schedhist/offcpu/hist" > "$work/hist"
	cat "$instance/events/schedhist/runq/hist" > "$work/hist.runq"
	rmdir "$pids"
	workload_stop
	victim_end
	python3 -S ./context.py all <(grep -v '^ => ' "$work/ftrace")
	python3 -S ./context.py same <(grep -v '^ => ' "$work/ftrace") "$victim" "$incoming" "$work/set_event_pid"
	same "events counted for the wrong task" "$(wrong_task "$work/hist.runq")" ""
	same "events counted by a trigger" "$(hits "$work/hist.runq")" "$(grep -c ': runq: ' "$work/ftrace")"
	# With hogs in it, the window is not like the victim's whole life.
	python3 -S ./context.py shares "$work/background.naps" 100 "$work/hist"
	outliers_have_stacks
}

# wrong_task FILE: prints the entries of a trigger's histogram with the keys common_pid and pid in which
# these differ.
wrong_task() { awk '$1 == "{" && $3 + 0 != $5 + 0' "$1"; }

# Each outlier of the victim has the stack where it slept: of the functions of its three sleeps that
# has those of one. Events of other CPUs may come between an outlier and its stack; only the
# victim's outliers trigger stacks.
outliers_have_stacks() {
	awk -v pid="$victim" '
		function end() { known += kind ~ /^(f+|p+|t+)$/; seen[substr(kind, 1, 1)] = 1; stack = 0; kind = "" }
		/^ => / && stack { kind = kind (/futex_/ ? "f" : "") (/pipe_read/ ? "p" : "") (/nanosleep/ ? "t" : ""); next }
		stack { end() }
		/: outlier: / { n += index($0, " pid=" pid " ") > 0; next }
		/<stack trace>/ { stack = 1 }
		END {
			if (stack) end()
			printf "# %d outliers of the victim, %d with the stack of a sleep\n", n, known
			exit !(n >= 20 && known == n && seen["f"] && seen["p"] && seen["t"])
		}
	' "$work/ftrace" || fail "outliers without their stacks"
}

# Listeners come and go under load, forks and hotplug, and with them the probe that runs after each
# switch. Whether an outlier is reported at the switch or after it, each is reported, and once; and a
# listener that was there all the time has seen each sample.
test_context_toggled() {
	local metric on online=/sys/devices/system/cpu/cpu1/online
	needs clock
	helper storm
	load metrics=all
	measure 0
	echo 1 > "$debugfs/reset"
	echo none > "$debugfs/outlier_rate"
	for metric in "${metrics[@]}"; do echo 1 > "$debugfs/threshold_ns/$metric"; done
	mkdir "$instance"
	workload_start bash -c "while :; do hackbench --groups 1 --loops 1; $work/storm 60; done"
	measure 1
	for on in {1..15}; do
		echo 1 > "$instance/events/schedhist/runq/enable"
		[[ $on != 5 || ! -w $online ]] || echo 0 > "$online"
		echo 1 > "$instance/events/schedhist/outlier/enable"
		echo 0 > "$instance/events/schedhist/enable"
		[[ $on != 8 || ! -w $online ]] || echo 1 > "$online"
		[[ $on != 11 ]] || { measure 0; measure 1; }
	done
	measure 0
	workload_stop
	note "$(above_1ns) samples, $(status outliers) outliers, $(status outliers_suppressed) suppressed"
	same "outliers and suppressed ones" $(($(status outliers) + $(status outliers_suppressed))) "$(above_1ns)"
	within "outliers" 1000 "$(status outliers)" 10000000
	assert_laws
	unload
	assert_gone
}

# A probe that is on the tracepoint itself, as raw tracepoints of BPF and fprobes are, sees each
# sample, too; and once the module has noticed it, in the right context.
test_context_raw() {
	local raw=$tracefs/events/schedhist_raw/runq
	needs hist
	load metrics=all
	measure 0
	echo 't:schedhist_raw/runq runq pid=$arg1:s32' > "$tracefs/dynamic_events" || skip "the kernel has no such probes"
	trap ': > "$raw/trigger"; echo > "$tracefs/dynamic_events"' EXIT
	echo 'hist:keys=common_pid,pid:size=4096' > "$raw/trigger"
	# The module notices in a work queue.
	sleep 1
	some_before=$(value hist/runq count)
	measure 1
	some_switches
	measure 0
	cat "$raw/hist" > "$work/hist"
	same "events" "$(hits "$work/hist")" $(($(value hist/runq count) - some_before))
	within "events" 100 "$(hits "$work/hist")" 1000000
	same "events in the wrong context" "$(wrong_task "$work/hist")" ""
	echo '!hist:keys=common_pid,pid:size=4096' > "$raw/trigger"
	echo > "$tracefs/dynamic_events"
	trap - EXIT
	unload
	assert_gone
}

# perf_context NAME EVENTS OPTIONS...: records these of our events in the background, until perf_off.
# $symbols is a prefix such as no_symbols.
perf_context() {
	local name=$1 wanted=schedhist:${2//,/,schedhist:}
	shift 2
	mkfifo "$work/perf.$name.off"
	# The victim goes on while anybody has its input open.
	exec {victim_in}>&-
	exec "${symbols[@]}" perf record -q -e "$wanted" -m 512 --no-buildid --no-buildid-cache \
		-o "$work/perf.$name.data" "$@" -- \
		bash -c "echo on > $work/perf.$name.on; read -r _ < $work/perf.$name.off"
}

# perf_on NAME PID: waits until this perf records.
perf_on() {
	until [[ -e $work/perf.$1.on ]]; do
		kill -0 "$2" || fail "perf ends: $(< "$work/background.perf_context")"
		sleep 0.1
	done
}

# perf_off NAME PID: ends it.
perf_off() {
	echo > "$work/perf.$1.off"
	wait "$2"
}

# Sets $symbols: programs see only some of the kernel's symbols. There are 200000, which they would
# read for many seconds on an emulated machine.
# shellcheck disable=SC2034 # perf_context uses it
some_symbols() {
	grep -E ' (_text|_stext|_etext|_end|__schedule|schedule|schedule_tail|.*futex.*|.*pipe_.*|.*nanosleep.*|do_syscall_64)$' \
		/proc/kallsyms > "$work/perf.kallsyms"
	symbols=(unshare --mount bash -c 'mount --bind "$0" /proc/kallsyms && exec "$@"' "$work/perf.kallsyms")
}

# perf_sum CGROUP: lets perf add up the waits of a cgroup in the background, until perf_off.
perf_sum() {
	mkfifo "$work/perf.sum.off"
	exec "${symbols[@]}" perf stat -x , -a -e schedhist:runq --for-each-cgroup "$1" -o "$work/perf.sum.data" -- \
		bash -c "echo on > $work/perf.sum.on; read -r _ < $work/perf.sum.off"
}

# perf: -p and -G see the events of the task or cgroup, all of them and no others. The sum of a
# cgroup's waits is that of its events.
allow_seconds test_context_perf 480
test_context_perf() {
	local name names=(pid cgroup) kinds=(pid cgroup sum) symbols=("${no_symbols[@]}")
	local -A perf
	needs perf
	# Kernels of ours have no CONFIG_CGROUP_PERF.
	[[ -z $debug_kernel ]] || names=(pid) kinds=(pid)
	load metrics=all
	measure 0
	cgroups_on
	# The kernel gives no cgroup its part of perf before this file of the root is written first.
	echo +cpu > "$cgroupfs/cgroup.subtree_control"
	echo -cpu > "$cgroupfs/cgroup.subtree_control"
	mkdir "$base/victim"
	victim_start naps
	echo "$victim" > "$base/victim/cgroup.procs"
	instance_open "${events[@]}"
	background perf_context pid "oncpu,$incoming" -p "$victim"
	perf[pid]=$!
	if [[ -z $debug_kernel ]]; then
		background perf_context cgroup "oncpu,$incoming" -a -G schedhist/victim
		perf[cgroup]=$!
		background perf_sum schedhist/victim
		perf[sum]=$!
	fi
	for name in "${kinds[@]}"; do perf_on "$name" "${perf[$name]}"; done
	# Only now, for the listeners to start sooner.
	others_start
	window 4
	nothing_lost "$instance"
	cat "$instance/trace" > "$work/ftrace"
	workload_stop
	for name in "${kinds[@]}"; do perf_off "$name" "${perf[$name]}"; done
	victim_end
	for name in "${names[@]}"; do
		"${no_symbols[@]}" perf script -i "$work/perf.$name.data" -F tid,event,trace 2> /dev/null > "$work/perf.$name"
	done
	python3 -S ./context.py all "$work/ftrace"
	python3 -S ./context.py same "$work/ftrace" "$victim" "oncpu,$incoming" "${names[@]/#/$work/perf.}"
	[[ -n $debug_kernel ]] || same "the waits of the cgroup, in ns" \
		"$(awk -F , '$3 == "schedhist:runq" { print $1 }' "$work/perf.sum.data")" \
		"$(sed -nE "s/.*: runq: .* pid=$victim .* duration_ns=([0-9]+) .*/\\1/p" "$work/ftrace" | awk '{ n += $1 } END { printf "%d", n }')"
}

# bpftrace: pid, tid, comm, cgroup, kstack and ustack. The kernel stack of a sleep of
# the victim belongs to the same sleep as the user stack, and no other task has such a user stack. A
# cgroup's waits add up to those of its group.
allow_seconds test_context_bpftrace 480
test_context_bpftrace() {
	local bpftrace event cgroup waited missed emitted
	needs bpftrace
	load metrics=all
	measure 0
	cgroups_on
	mkdir "$base/victim"
	victim_start naps
	echo "$victim" > "$base/victim/cgroup.procs"
	cgroup=$(stat -c %i "$base/victim")
	instance_open "${events[@]}"
	for event in oncpu ${incoming//,/ }; do
		cat <<- END
			tracepoint:schedhist:$event {
				if ((int32)tid == args.pid && comm == args.comm) { @right = count(); } else { @wrong = count(); }
				if (args.pid == $victim) {
					@victim = count();
					if (pid != $victim || cgroup != $cgroup) { @outside = count(); }
				} else if (cgroup == $cgroup) { @outside = count(); }
			}
		END
	done > "$work/bpftrace.bt"
	cat >> "$work/bpftrace.bt" <<- END
		tracepoint:schedhist:offcpu /args.pid == $victim/ { @ns[kstack(raw, 16)] = sum(args.duration_ns); }
		tracepoint:schedhist:offcpu, tracepoint:schedhist:blocked, tracepoint:schedhist:wakeup {
			@stacks[args.pid == $victim ? 1 : 0, kstack(raw, 16), ustack(raw, 8)] = count();
		}
		tracepoint:schedhist:runq /cgroup == $cgroup/ { @waited = sum(args.duration_ns); }
	END
	echo cgroup > "$debugfs/group_by"
	symbols_of "$victim" naps > "$work/naps.symbols"
	background bpftrace_run "$work/bpftrace.bt"
	bpftrace=$!
	bpftrace_wait
	others_start
	window 4
	missed=$(bpftrace_missed "$bpftrace")
	nothing_lost "$instance"
	cat "$instance/trace" > "$work/ftrace"
	workload_stop
	bpftrace_end "$bpftrace"
	waited=$(of_group /schedhist/victim runq_sum_ns)
	victim_end
	cp "$work/background.bpftrace_run" "$work/said"
	count_of_map() { sed -nE "s/^@$1: ([0-9]+)$/\1/p" "$work/said"; }
	same "events in the wrong context, of the wrong cgroup" "$(count_of_map wrong) $(count_of_map outside)" "0 0"
	emitted=$(grep -cE ": (oncpu|${incoming//,/|}): .* pid=$victim " "$work/ftrace")
	within "events of the victim that bpftrace saw" $((emitted - missed)) "$(count_of_map victim)" "$emitted"
	emitted=$(grep -cE ": (oncpu|${incoming//,/|}): " "$work/ftrace")
	within "events that bpftrace saw" $((emitted - missed)) "$(count_of_map right)" "$emitted"
	# Any of its waits may be among those that were missed.
	within "the waits of its cgroup, in ns" $((missed ? 1 : waited)) "$(count_of_map waited)" "$waited"
	note "$(count_of_map right) events in the right context, $(count_of_map victim) of the victim"
	python3 -S ./context.py shares "$work/background.naps" 100 "$work/said"
	python3 -S ./context.py stacks "$work/naps.symbols" "$work/said"
}

# symbols_of PID HELPER: prints where its functions are, in the form of /proc/kallsyms. Several parts of
# a small program may be mapped from the beginning of its file; it begins with the first one.
symbols_of() {
	local base=0 value kind name
	[[ $(readelf --file-header "$work/$2") != *"Type: "*DYN* ]] ||
		base=0x$(sed -nE "/\/$2\$/ { s/-.*//p; q }" "/proc/$1/maps")
	nm --defined-only "$work/$2" | while read -r value kind name; do
		printf '%x %s %s\n' $((16#$value + base)) "$kind" "$name"
	done
}

# Profiles of the time off CPU, by perf's own means: perf report and a flame graph show three sleeps
# with their shares, and so does offcputime.
allow_seconds test_offcpu_profile 480
test_offcpu_profile() {
	local symbols name other='' perf
	needs perf
	load
	victim_start naps
	some_symbols
	# Kernels of ours have no BTF.
	if [[ -n $(command -v offcputime-libbpf) && -e /sys/kernel/btf/vmlinux ]]; then
		background "${symbols[@]}" offcputime-libbpf -p "$victim" 8
		other=$!
	fi
	background perf_context sleeps offcpu -g -p "$victim"
	perf=$!
	perf_on sleeps "$perf"
	echo >&"$victim_in"
	sleep 8
	[[ -z $other ]] || wait "$other"
	# What it says is not to be of a longer time than the profile.
	victim_end
	# perf ends with it, and then terminates its own child.
	wait "$perf" || :
	"${symbols[@]}" perf script -i "$work/perf.sleeps.data" -F comm,tid,period,event,ip,sym,dso 2> /dev/null > "$work/perf.script"
	../../scripts/flamegraph --folded "$work/perf.script" > "$work/perf.folded"
	../../scripts/flamegraph "$work/perf.script" > "$work/perf.svg"
	cp "$work/background.naps" "$work/naps.said"
	python3 -S ./context.py shares "$work/naps.said" 2 "$work/perf.folded"
	# It does not run at exactly the same time.
	[[ -z $other ]] || python3 -S ./context.py shares "$work/naps.said" 4 "$work/background.unshare"
	python3 -S -c 'import sys, xml.dom.minidom as dom; print("#", len(dom.parse(sys.argv[1]).getElementsByTagName("rect")), "rectangles")' \
		"$work/perf.svg"
	"${symbols[@]}" perf report --stdio --children -g none --sort sym -i "$work/perf.sleeps.data" 2> /dev/null > "$work/perf.report"
	for name in nap_futex nap_pipe nap_timer; do
		grep -q "<title>$name: " "$work/perf.svg" || fail "the flame graph has no $name"
		report_shows "$name" "$work/perf.report"
	done
}

# report_shows NAME FILE: asserts that this output of perf report has a function with its share.
report_shows() {
	local profile
	profile=$(awk -v name="$1" '$NF == name { sub("%", "", $1); printf "%d", $1 * 100; exit }' "$2")
	within "hundredths of per cent of $1, as perf report says" \
		$(($(share_of "$1") - 200)) "${profile:-0}" $(($(share_of "$1") + 200))
}

# share_of NAME: prints the share of a sleep, as the victim says, in hundredths of per cent.
share_of() {
	awk -v name="$1" '{ sum += $2 } $1 == name { n = $2 } END { printf "%d", 10000 * n / sum }' "$work/naps.said"
}

# Profiles of waits: of a program that a hog preempts at two known places, and of one that waits for
# its quota at a third. Each wait is there, and the waits add up to those of the histograms.
allow_seconds test_wait_profiles 480
test_wait_profiles() {
	local symbols preempted throttled waited perf name
	needs perf
	[[ $release != *-rt-* ]] || skip "its real-time hog makes it take minutes on a real-time kernel"
	load metrics=default,throttled
	measure 0
	cgroups_on
	grep -qw cpu "$cgroupfs/cgroup.controllers" || skip "the controller cpu is not in cgroup2"
	echo +cpu > "$cgroupfs/cgroup.subtree_control"
	echo +cpu > "$base/cgroup.subtree_control"
	mkdir "$base/service"
	[[ -e $base/service/cpu.max ]] || skip "the kernel has no CONFIG_CFS_BANDWIDTH"
	helper waits
	# Before the victim, whose input it would keep open.
	taskset --cpu-list 0 "$work/waits" quota &
	throttled=$!
	echo "$throttled" >> "$work/background"
	waits_for holds "/proc/$throttled/comm" waits
	victim_start waits 1
	preempted=$victim
	echo "$throttled" > "$base/service/cgroup.procs"
	echo "20000 100000" > "$base/service/cpu.max"
	echo "process $preempted $throttled" > "$debugfs/group_by"
	some_symbols
	background perf_context waits runq,throttled -g -t "$preempted,$throttled"
	perf=$!
	perf_on waits "$perf"
	measure 1
	echo >&"$victim_in"
	sleep 4
	measure 0
	waited=$(of_group "$preempted:waits" runq_sum_ns)
	# What it says is not to be of a longer time than the profile.
	victim_end
	perf_off waits "$perf"
	"${symbols[@]}" perf script -i "$work/perf.waits.data" -F comm,tid,period,event,ip,sym,dso 2> /dev/null > "$work/perf.script"
	"${symbols[@]}" perf report --stdio --children -g none --sort sym --tid "$preempted" --percentage relative \
		-i "$work/perf.waits.data" 2> /dev/null > "$work/perf.report"
	profile_shows runq "$preempted" "$waited" < "$work/background.waits"
	profile_shows throttled "$throttled" "$(value hist/throttled sum)" <<< "wait_quota 1"
	cp "$work/background.waits" "$work/naps.said"
	for name in wait_short wait_long; do
		report_shows "$name" "$work/perf.report"
	done
}

# profile_shows EVENT TID NS: asserts that the flame graph of the thread's events has the places that
# the standard input names, with these shares, and NS nanoseconds in all.
profile_shows() {
	local name
	cat > "$work/places"
	awk -v event="schedhist:$1:" -v tid="$2" 'BEGIN { RS = "" } $2 == tid && index($0, event) { print $0 "\n" }' \
		"$work/perf.script" > "$work/perf.part"
	../../scripts/flamegraph --folded "$work/perf.part" > "$work/$1.folded"
	../../scripts/flamegraph "$work/perf.part" > "$work/perf.svg"
	python3 -S ./context.py shares "$work/places" 2 "$work/$1.folded"
	same "the profile of $1, in ns" "$(awk '{ n += $NF } END { printf "%d", n }' "$work/$1.folded")" "$3"
	while read -r name _; do
		grep -q "<title>$name: " "$work/perf.svg" || fail "the flame graph of $1 has no $name"
	done < "$work/places"
}
