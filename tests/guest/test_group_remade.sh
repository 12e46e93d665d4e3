#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Rules that name a cgroup which is made at that moment, or is made again.

# shellcheck source=tests/guest/groups.bash
. ./groups.bash

# remake_seconds: for how long a cgroup is made and removed.
remake_seconds=10
[[ -z ${SCHEDHIST_THOROUGH-} ]] || remake_seconds=600

# remake TEST MODE: runs the helper. Each write that finds no cgroup leaves a line in the kernel log.
remake() {
	local i
	for ((i = 0; i < remake_seconds; i += 5)); do
		"$work/remake" "$2" /schedhist/again 5
		log_so_far "$1"
	done
}

# remade_begin: loads the module and makes a cgroup whose rule keeps the probe of new cgroups.
remade_begin() {
	helper remake
	cgroups_on
	expedite_rcu
	load "$@"
	mkdir "$base/keep"
}

allow_seconds test_group_remade_rule $((remake_seconds + 200))
test_group_remade_rule() {
	remade_begin group_by=list
	echo "add keep cgroup /schedhist/keep" > "$debugfs/group_rules"
	remake test_group_remade_rule rule
}

allow_seconds test_group_remade_under $((remake_seconds + 200))
test_group_remade_under() {
	remade_begin
	remake test_group_remade_under under
}

# group_of PID: prints the number of its group.
group_of() { awk -v pid="$1" '$3 == pid { print $5 }' "$debugfs/group_tasks"; }

# The same for the parameters.
test_group_remade_parameters() {
	local try parameters task churn
	helper remake
	cgroups_on
	expedite_rcu
	sleep 1000 &
	task=$!
	for try in {1..4}; do
		parameters=('group_by="cgroup under /schedhist/again"')
		((try % 2)) || parameters=(group_by=list 'group_rules="again cgroup /schedhist/again"')
		mkfifo "$work/background_churn"
		"$work/remake" churn /schedhist/again < "$work/background_churn" &
		churn=$!
		exec {end}> "$work/background_churn"
		until load "${parameters[@]}" 2> "$work/load"; do
			grep -q "Unknown symbol" "$work/load" || fail "loading: $(< "$work/load")"
		done
		exec {end}>&-
		wait "$churn"
		echo "$task" > "$base/again/cgroup.procs"
		within "group with ${parameters[*]}" 1 "$(group_of "$task")" 255
		echo "$task" > "$cgroupfs/cgroup.procs"
		same "group of a task outside" "$(group_of "$task")" 0
		unload
		rm "$work/background_churn"
	done
	kill "$task"
}

# What `under` names is followed to the cgroup that is made in its place, at all times.
test_group_remade_service() {
	local on task
	remade_begin
	mkdir "$base/service"
	sleep 1000 &
	task=$!
	group_begin "cgroup under /schedhist/service depth 1"
	for on in 1 0 1; do
		measure "$on"
		echo "$task" > "$cgroupfs/cgroup.procs"
		[[ ! -d $base/service/part ]] || rmdir "$base/service/part"
		rmdir "$base/service"
		mkdir -p "$base"/{other,service/part}
		echo "$task" > "$base/service/part/cgroup.procs"
		measure 1
		same "name of the group" "$(names_of_groups | grep part)" /schedhist/service/part
		same "tasks of the group" "$(of_group /schedhist/service/part tasks)" 1
	done
	measure 0
	assert_group_laws
	kill "$task"
}

# No path goes through a file, be it open or not.
test_group_remade_file() {
	local text
	remade_begin group_by=list
	exec {opened}< "$base/keep/cgroup.procs"
	for text in keep/cgroup.procs/{x,,/,cgroup.procs} keep/x keep/../keep keep/. "$(printf 'x%.0s' {1..256})"; do
		fails_with "No such file" write "$debugfs/group_rules" "add a cgroup /schedhist/$text"
		fails_with "No such file" write "$debugfs/group_by" "cgroup under /schedhist/$text"
	done
	exec {opened}<&-
	for text in keep keep/ /keep// ; do
		echo "add a cgroup /schedhist/$text" > "$debugfs/group_rules"
		echo "remove a" > "$debugfs/group_rules"
	done
}
