#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The command schedhist, with the module: what its verbs print is true, and they leave no setting
# behind. scripts/bed/vm --tool builds it.

# shellcheck source=tests/guest/tool.bash
. ./tool.bash
# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

# One command line for each verb that needs the module.
verbs=("" hist "runqlat 1 1" "cpudist 1 1" runqslower groups "run -- true" "record -d 1" "watch -T 1" ctl)

# Without the module, or without the rights, each verb says which file it is and what to do.
test_tool_remedies() {
	local verb words
	need_tool
	cd "$work" || exit
	# Another test may have left one.
	rm -f schedhist.data
	for verb in "${verbs[@]}"; do
		read -ra words <<< "$verb"
		ends_with 1 tool "${words[@]}"
		says complaints "$debugfs/"
		says complaints "the module is not loaded: modprobe schedhist"
		narrow complaints
	done
	[[ ! -e schedhist.data ]] || fail "record has left a file"
	# Two failures: no module, no files.
	ends_with 2 tool doctor
	says said "FAIL module not loaded -> modprobe schedhist"
	narrow said
	# With debugfs=off on the kernel's command line, the kernel does not list it.
	grep -v debugfs /proc/filesystems > filesystems
	ends_with 2 unshare --mount bash -c '
		mount --bind filesystems /proc/filesystems && umount -l /sys/kernel/debug && exec ./tool doctor'
	says said "FAIL debugfs the kernel has none: it was booted with debugfs=off"
	! grep -qE 'modprobe|mount -t' said || fail "doctor advises in vain: $(< said)"
	narrow said
	load
	chmod a+rx . tool
	for verb in "${verbs[@]}"; do
		read -ra words <<< "$verb"
		ends_with 1 setpriv --reuid 65534 --clear-groups ./tool "${words[@]}"
		says complaints "only root may read and write it: run this as root"
		narrow complaints
	done
	ends_with 1 setpriv --reuid 65534 --clear-groups ./tool doctor
	says said "only root may read it -> run this as root"
	ends_with 0 tool doctor
	says said "ok module version"
	narrow said
	# Another tracer of the same events is named.
	echo 1 > "$tracefs/events/sched/sched_switch/enable"
	ends_with 0 tool doctor
	says said "warn probes sched_switch is traced, too"
	# Measuring that is off is a warning, and each figure says it.
	measure 0
	ends_with 0 tool doctor
	says said "warn snapshot measuring is off"
	ends_with 0 tool
	says said "note: measuring is off: schedhist ctl enable 1"
}

# What the command computes from `raw` is what the module's own text files say.
test_tool_figures() {
	local form
	begin_tool metrics=all
	messages 2
	measure 0
	tool hist -j "${metrics[@]}" > all
	tool hist -C -j oncpu > each
	check_tool histograms "$debugfs" all each
	# Each form of each verb fits, and says the same.
	for form in "" -n -u -m; do
		tool ${form:+"$form"} > "form$form"
		tool hist runq oncpu ${form:+"$form"} -b 4 >> "form$form"
		narrow "form$form"
	done
	says form "laws ok"
	tool -x , > csv
	tool -j > json
	check_tool forms all csv json
	# A copy of the folder says the same as the module.
	mkdir copy
	cp "$debugfs/raw" copy/
	same "a copy" "$(tool --dir copy hist | head -n 3)" "$(tool hist | head -n 3)"
	tool ctl > settings
	says settings "enable 0"
	tool ctl enable 1
	same enable "$(< "$debugfs/enable")" 1
	ends_with 1 tool ctl enable maybe
	says complaints "the module refuses \"maybe\": the kernel log says why (dmesg)"
}

# Intervals add up, and ^C ends the last one early: it prints what there is.
test_tool_intervals() {
	begin_tool
	workload_start
	tool hist 0.5 3 -j > three
	"$SCHEDHIST_TOOL" hist -j 100 > one &
	background $!
	# It has read what the interval begins with.
	waits_for catches_signals $!
	sleep 1.5
	kill -INT $!
	wait $!
	workload_stop
	check_tool intervals three 3 0.5
	check_tool intervals one 1 1.5
	tool 2> /dev/null > said
	says said "laws ok"
	# A reader that reads loses nothing for others.
	"$SCHEDHIST_TOOL" hist 100 > /dev/null &
	background $!
	waits_for catches_signals $!
	same reset "$(tool ctl enable)" 1
	kill -INT $!
	wait $!
}

# The tools of libbpf-tools count the same over the same window, and a program that parses their table
# parses ours.
allow_seconds test_tool_peers 600
test_tool_peers() {
	local try rc
	about_numbers
	command -v runqlat-libbpf cpudist-libbpf > /dev/null || skip "runqlat-libbpf is not installed"
	begin_tool
	for try in 1 2 3; do
		rc=0
		check_tool peers "$SCHEDHIST_TOOL" || rc=$?
		((rc != 0 && try < 3)) || break
	done
	((rc == 0))
}

# Prints how often measuring has begun on a CPU.
beginnings() { sed -n 's/^start_unseen //p' "$debugfs/status"; }

# Tables of processes, threads, namespaces and cgroups are those of their tasks, and no verb leaves its
# rule behind.
test_tool_groups() {
	local pid other first rule begun number
	begin_tool
	cgroups_on
	# sleeper has two threads, and shares its CPU with a loop.
	python3 -SE "$here/tool.py" sleeper 1 > threads &
	pid=$!
	taskset --cpu-list 1 sh -c 'while :; do :; done' &
	other=$!
	background "$pid" "$other"
	while (($(wc -l < threads) < 2)); do sleep 0.2; done
	same "before" "$(< "$debugfs/group_by")" none
	tool runqlat -p "$pid" 1 2 > one
	tool runqlat -P 1 1 > pids
	tool runqlat -L -p "$pid" 1 1 > tids
	tool cpudist -P -e -T 1 1 > oncpu
	tool runqlat --pidnss 1 1 > pidnss
	check_tool split "$pid" threads one pids tids pidnss oncpu
	narrow one pids tids pidnss oncpu
	grouped_by none
	same group_limit "$(< "$debugfs/group_limit")" 255
	# A cgroup counts with what is below it.
	mkdir -p "$base/a/b"
	echo "$pid" > "$base/a/b/cgroup.procs"
	tool runqlat -c "$base/a" 1 1 > cgroup
	check_tool table cgroup 10 100000
	grouped_by none
	# Two at once: the last one restores the rule.
	"$SCHEDHIST_TOOL" runqlat -p "$pid" 100 > first &
	first=$!
	background "$first"
	soon_grouped_by "process $pid"
	tool runqlat -p "$pid" 1 1 > second
	check_tool table second 10 100000
	grouped_by "process $pid"
	# Another rule is refused: the first one relies on its own.
	ends_with 1 tool runqlat -P 1 1
	says complaints "tasks are grouped by 'process $pid' already"
	kill -INT "$first"
	wait "$first"
	grouped_by none
	check_tool table first 10 100000
	# A rule that the user wrote stays.
	for rule in "process $pid" process; do
		echo "$rule" > "$debugfs/group_by"
		tool runqlat -p "$pid" 0.5 1 > /dev/null
		grouped_by "$rule"
	done
	# So does one that equals what a process that was killed had written, but before the module was
	# loaded anew. Without that, the next process restores what was there before.
	for rule in process none; do
		echo none > "$debugfs/group_by"
		"$SCHEDHIST_TOOL" runqlat -P 100 > /dev/null &
		first=$!
		background "$first"
		soon_grouped_by process
		kill -KILL "$first"
		wait "$first" || true
		if [[ $rule == process ]]; then
			unload
			load
			echo process > "$debugfs/group_by"
		fi
		tool runqlat -P 0.5 1 > /dev/null
		grouped_by "$rule"
	done
	for rule in none process; do
		echo "$rule" > "$debugfs/group_by"
		ends_with 1 tool runqlat -p 4194000 1 1
		says complaints "there is no such process"
	done
	# A rule that the module refuses changes nothing, and does not restart measuring.
	echo none > "$debugfs/group_by"
	# On each CPU, it begins with the first switch.
	for number in $(seq 0 $(($(nproc) - 1))); do taskset --cpu-list "$number" true; done
	begun=$(beginnings)
	ends_with 1 tool runqlat -p "$(sed -n 2p threads)" 1 1
	says complaints "there is no such process"
	same "how often measuring began" "$(beginnings)" "$begun"
	# Where there is no room, what is in no table is said.
	echo 1 > "$debugfs/group_limit"
	echo process > "$debugfs/group_by"
	ends_with 0 tool runqlat -p "$pid" 0.5 1
	says complaints "a task found no room for a group"
	echo 255 > "$debugfs/group_limit"
	ends_with 1 tool runqlat -c "$base/c" 1 1
	says complaints "there is no such cgroup"
	echo cgroup > "$debugfs/group_by"
	sleep 1
	tool groups -n 3 > said
	narrow said
	says said "/schedhist/a/b"
	tool groups -j 0.5 1 > json
	check_tool json json
	kill "$pid" "$other"
}
