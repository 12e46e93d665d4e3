#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# As many switches as a kernel can make, and each of them is accounted for.

# shellcheck source=tests/guest/groups.bash
. ./groups.bash

churning=/sys/module/churn/parameters

# leave NUMBER: lets the threads of churn run until they have left their CPUs that often.
leave() { echo "$1" > "$churning/leave"; }

# move_often NUMBER: moves the threads of churn between two cgroups until this is killed.
move_often() {
	local pid
	while :; do
		for pid in "${threads[@]}"; do
			echo "$pid" > "$base/churn$((RANDOM % 2))/cgroup.procs"
		done
		sleep 0.05
	done
}

# of_groups NAME...: prints the sum of their stays on a CPU.
of_groups() {
	local name sum=0
	for name; do
		sum=$((sum + $(of_group "$name" oncpu_count)))
	done
	echo "$sum"
}

# churn_once RULE NUMBER GROUP...: loads the module, measures NUMBER switches of threads that are in
# these groups by RULE, checks all sums, and unloads the module. The threads run while the module is
# loaded and while it is unloaded.
churn_once() {
	local rule=$1 number=$2 before left mover
	shift 2
	leave $((number / 20)) &
	load group_by=comm
	wait $!
	group_begin "$rule"
	if [[ $rule == list ]]; then
		# The threads do not run, so none of their stays is in another group.
		echo "add churn comm churn/*" > "$debugfs/group_rules"
	fi
	before=$(< "$churning/left")
	move_often &
	mover=$!
	leave "$number"
	kill "$mover"
	wait "$mover" || :
	measure 0
	storm_signal STOP
	left=$(($(< "$churning/left") - before))
	same "stays of $*" "$(of_groups "$@")" "$left"
	assert_laws
	assert_group_laws
	total=$((total + $(status switches)))
	storm_signal CONT
	measure 1
	leave $((number / 20)) &
	unload
	assert_gone
	wait $!
}

# An emulator affords few of them, and User Mode Linux, at the speed of the host, many more: a hundred
# million in the long form.
allow_seconds test_churn $((${SCHEDHIST_THOROUGH:+1} + 0 ? 7200 : 600))
test_churn() {
	local number=200000 lives=4 total=0 i begin=$SECONDS threads
	case $own_kernel in
	'') ;;
	uml)
		number=2000000 lives=10
		[[ -z ${SCHEDHIST_THOROUGH-} ]] || number=100000000 lives=20
		;;
	*) number=40000 ;;
	esac
	cgroups_on
	load_helper churn
	mkdir "$base"/churn{0,1}
	mapfile -t threads < <(pgrep '^churn/')
	storm_start fork into move rename
	for ((i = 0; i < lives; i += 2)); do
		churn_once list $((number / lives)) churn
		churn_once "cgroup under /schedhist depth 1" $((number / lives)) /schedhist/churn{0,1}
	done
	storm_stop
	rmmod churn
	note "$total switches in $lives lives of the module, in $((SECONDS - begin)) s"
	within "switches" "$number" "$total" $((number * 100))
}
