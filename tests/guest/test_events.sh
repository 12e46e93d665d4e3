#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Our own trace event, used as any of the kernel's.

trace_lines() { sed '/^#/d' "$tracefs/trace"; }

# Matches what the event prints, whole.
printed='oncpu: comm=.* pid=[0-9]+ prio=[0-9]+ cpu=[0-9]+ duration_ns=[0-9]+ '
printed+='end=(preempted|interruptible|uninterruptible|stopped|dead)$'

test_event_format() {
	load
	grep -qx schedhist:oncpu "$tracefs/available_events"
	diff - <(awk '/field:/ && !/common_/ { sub(/^\t/, ""); gsub(/\t/, " "); print }' "$event/format") <<- 'END'
		field:u64 duration_ns; offset:8; size:8; signed:0;
		field:pid_t pid; offset:16; size:4; signed:1;
		field:int prio; offset:20; size:4; signed:1;
		field:unsigned int cpu; offset:24; size:4; signed:0;
		field:char comm[16]; offset:28; size:16; signed:0;
		field:u8 end; offset:44; size:1; signed:0;
	END
	grep -q 'print fmt: "comm=%s pid=%d prio=%d cpu=%u duration_ns=%llu end=%s"' "$event/format"
}

# Measuring is off before and after, so that the events and the samples are those of one window.
test_event_each_sample() {
	local file cpu
	load
	measure 0
	echo 4096 > "$tracefs/buffer_size_kb"
	echo 1 > "$event/enable"
	for file in "$debugfs"/per_cpu/cpu*/oncpu; do cat "$file"; done > "$work/before"
	echo > "$tracefs/trace"
	measure 1
	perf bench sched pipe --loop 500 > /dev/null
	measure 0
	for file in "$debugfs"/per_cpu/cpu*/oncpu; do cat "$file"; done > "$work/after"
	for cpu in $(possible_cpus); do
		grep -qx 'overrun: 0' "$tracefs/per_cpu/cpu$cpu/stats"
	done
	trace_lines > "$work/trace"
	if grep -vE "$printed" "$work/trace"; then
		fail "these do not look right"
	fi
	# Each CPU has as many events as samples, and their durations add up to the same sum.
	awk '
		FILENAME ~ /trace$/ {
			sub(/.* cpu=/, "")
			split($0, part, /[ =]/)
			count[part[1]]++
			sum[part[1]] += part[3]
			events++
			next
		}
		$1 == "cpu" { cpu = $2 }
		$1 == "count" { samples[cpu] = $2 - samples[cpu] }
		$1 == "sum" { total[cpu] = $2 - total[cpu] }
		END {
			for (cpu in samples) {
				if (samples[cpu] == count[cpu] + 0 && total[cpu] == sum[cpu] + 0) continue
				printf "cpu %d: %d samples, %d events, %.0f ns and %.0f\n", cpu, samples[cpu],
					count[cpu], total[cpu], sum[cpu]
				bad = 1
			}
			printf "# %d events, each a sample\n", events
			exit bad || events < 1000
		}
	' "$work/before" "$work/after" "$work/trace"
}

# Only lines with TEXT, and some.
only() {
	trace_lines > "$work/trace"
	if grep -v -- "$1" "$work/trace"; then
		fail "the filter let these pass"
	fi
	[[ -s $work/trace ]] || fail "the filter let nothing pass"
}

test_event_filter() {
	load
	workload_start
	cp "$(command -v sleep)" "$work/napper"
	echo 'comm == "napper"' > "$event/filter"
	echo 1 > "$event/enable"
	"$work/napper" 0.1
	echo 0 > "$event/enable"
	only 'comm=napper'

	# This shell leaves the CPU to wait for its child.
	echo "pid == $$" > "$event/filter"
	echo > "$tracefs/trace"
	echo 1 > "$event/enable"
	sleep 0.1
	echo 0 > "$event/enable"
	only "pid=$$ "

	echo 'duration_ns > 1000000 && end == 0' > "$event/filter"
	fails_with "Invalid argument" bash -c "echo 'nonsense == 1' > $event/filter"
}

test_event_hist_trigger() {
	load
	echo 'hist:keys=end:vals=duration_ns' > "$event/trigger"
	echo 'hist:name=lengths:keys=duration_ns.log2' >> "$event/trigger"
	perf bench sched pipe --loop 200 > /dev/null
	cat "$event/hist" > "$work/hist"
	grep -Eq 'end: +1 .*hitcount: +[1-9][0-9]* +duration_ns: +[1-9]' "$work/hist"
	grep -Eq 'duration_ns: ~ 2\^[0-9]+ .*hitcount: +[1-9]' "$work/hist"
	echo '!hist:keys=end:vals=duration_ns' >> "$event/trigger"
	echo '!hist:name=lengths:keys=duration_ns.log2' >> "$event/trigger"
	! grep -q '^hist' "$event/trigger" || fail "the triggers are still there"
	unload
	assert_gone
}

# Somebody forgets to switch an event off: it keeps the module, and still works.

test_event_enabled_at_unload() {
	load
	echo 1 > "$event/enable"
	perf bench sched pipe --loop 50 > /dev/null
	fails_with "in use" unload
	echo > "$tracefs/trace"
	perf bench sched pipe --loop 50 > /dev/null
	only 'oncpu: '
	echo 0 > "$event/enable"
	unload
	assert_gone
}

hits() { awk '$1 == "Hits:" { print $2 }' "$event/hist"; }

test_event_triggered_at_unload() {
	local before
	load
	echo 'hist:keys=end' > "$event/trigger"
	perf bench sched pipe --loop 50 > /dev/null
	fails_with "in use" unload
	before=$(hits)
	perf bench sched pipe --loop 50 > /dev/null
	within "hits after that" $((before + 50)) "$(hits)" 1000000
	echo '!hist:keys=end' >> "$event/trigger"
	unload
	assert_gone
}

test_event_trace_cmd() {
	load
	trace-cmd record -q -e schedhist:oncpu -o "$work/trace.dat" \
		perf bench sched pipe --loop 200 > /dev/null
	trace-cmd report "$work/trace.dat" 2> /dev/null | grep 'oncpu:' > "$work/report"
	grep -q 'comm=sched-pipe .* end=interruptible' "$work/report" || fail "$(head "$work/report")"
	if grep -vE 'duration_ns=[0-9]+ end=[a-z]+$' "$work/report"; then
		fail "the report is not readable"
	fi
}

test_event_perf() {
	load
	# Without looking for symbols, which takes a minute.
	perf record -q -a -e schedhist:oncpu --no-buildid --no-buildid-cache -o "$work/perf.data" -- \
		perf bench sched pipe --loop 200 > /dev/null
	perf script -i "$work/perf.data" -F event,trace | grep 'schedhist:oncpu:' > "$work/report"
	grep -q 'comm=sched-pipe .* end=interruptible' "$work/report" || fail "$(head "$work/report")"
	if grep -vE 'duration_ns=[0-9]+ end=[a-z]+$' "$work/report"; then
		fail "the report is not readable"
	fi
}
