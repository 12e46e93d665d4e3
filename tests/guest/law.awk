# SPDX-License-Identifier: GPL-2.0
#
# Whether the counters and the histograms of schedhist add up.
#
# usage: awk -f law.awk status per_cpu/cpu*/METRIC... hist/*

function check(what, found, wanted) {
	if (found == wanted) return
	printf "%s: %.0f is not %.0f\n", what, found, wanted
	bad = 1
}

FILENAME ~ /status$/ && NF == 3 && $1 ~ /^cpu[0-9]+$/ { cpus[$1]; n[$1, $2] = $3; sum[$2] += $3 }
FILENAME ~ /status$/ && $1 == "metrics" { waits = / runq_wakeup runq_preempt / }
FILENAME ~ /status$/ && NF == 2 { all[$1] = $2 }
$1 == "metric" { metric = $2 }
$1 == "cpu" { cpu = $2 == "all" ? "all" : "cpu" $2 }
$1 == "count" || $1 == "sum" { n[cpu, metric, $1] = $2 }
($1 == "min" || $1 == "max") { n[cpu, metric, $1] = $2; seen[metric] }
$1 == "bucket" { n[cpu, metric, $2, $3] = $4; buckets[metric, $2, $3] }

END {
	for (cpu in cpus) {
		switches = n[cpu, "switches"]
		oncpu = n[cpu, "oncpu", "count"]
		idle = n[cpu, "idle", "count"]
		unseen = n[cpu, "start_unseen"]
		tasks = n[cpu, "voluntary"] + n[cpu, "involuntary"]
		check(cpu ": oncpu + idle + start_unseen and switches", oncpu + idle + unseen, switches)
		# Everything about waits, where they were asked for.
		runq = n[cpu, "runq", "count"]
		if (waits)
			check(cpu ": to_idle + runq + wait_unseen + untracked and switches", n[cpu, "to_idle"] + \
				runq + n[cpu, "wait_unseen"] + n[cpu, "untracked"], switches)
		check(cpu ": runq_wakeup + runq_preempt and runq",
			n[cpu, "runq_wakeup", "count"] + n[cpu, "runq_preempt", "count"], runq)
		offcpu = n[cpu, "offcpu", "count"]
		check(cpu ": blocked_* and offcpu", n[cpu, "blocked_interruptible", "count"] + \
			n[cpu, "blocked_uninterruptible", "count"] + n[cpu, "blocked_other"], offcpu)
		wakeup = n[cpu, "wakeup", "count"] + n[cpu, "wake_unseen"]
		if (wakeup) check(cpu ": wakeup + wake_unseen and offcpu", wakeup, offcpu)
		# Of those whose start was not seen some were tasks, and some the idle task.
		if (tasks < oncpu || tasks - oncpu > unseen) {
			printf "%s: %d voluntary and involuntary, %d oncpu, %d start_unseen\n",
				cpu, tasks, oncpu, unseen
			bad = 1
		}
		number++
	}
	if (!number || !all["switches"]) {
		print "no CPU, or no switch"
		bad = 1
	}
	for (counter in sum)
		check("sum of " counter " over the CPUs", sum[counter], all[counter])
	for (metric in seen) {
		count = total = max = 0
		min = -1
		for (cpu in cpus) {
			if (!n[cpu, metric, "count"]) continue
			count += n[cpu, metric, "count"]
			total += n[cpu, metric, "sum"]
			if (min < 0 || n[cpu, metric, "min"] < min) min = n[cpu, metric, "min"]
			if (n[cpu, metric, "max"] > max) max = n[cpu, metric, "max"]
		}
		check(metric " merged, count", n["all", metric, "count"], count)
		check(metric " merged, sum", n["all", metric, "sum"], total)
		check(metric " merged, min", n["all", metric, "min"], min)
		check(metric " merged, max", n["all", metric, "max"], max)
	}
	for (bucket in buckets) {
		split(bucket, part, SUBSEP)
		count = 0
		for (cpu in cpus) count += n[cpu, bucket]
		check(part[1] " merged, bucket " part[2], n["all", bucket], count)
	}
	exit bad
}
