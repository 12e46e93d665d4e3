#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The groups as programs read them.

# shellcheck source=tests/guest/groups.bash
. ./groups.bash

# samples_of NAME: prints the sum of a family of group_openmetrics over groups.
samples_of() { awk -v name="$1" 'index($1, name "{") == 1 { n += $NF } END { print n + 0 }' "$debugfs/group_openmetrics"; }

# all_groups KEY: prints the sum of a value over the groups.
all_groups() {
	awk -v key="$1" '
		$1 == "group" { for (i = 2; $i != "name"; i += 2) if ($i == key) n += $(i + 1) }
		END { print n + 0 }
	' "$debugfs/groups"
}

# openmetrics_line TEXT: asserts that a line of group_openmetrics begins so, once.
openmetrics_line() {
	same "lines that begin with $1" "$(text=$1 awk 'index($0, ENVIRON["text"]) == 1' "$debugfs/group_openmetrics" | wc -l)" 1
}

# A published client's parser takes the file, whatever the names are, and it agrees with `groups`.
test_group_openmetrics() {
	local before metric name path=/schedhist
	cgroups_on
	load
	../engine/openmetrics_check.py "$debugfs/group_openmetrics"
	openmetrics_line 'schedhist_group_by_info{rule="none"} 1'
	openmetrics_line 'schedhist_groups 0'
	mkdir "$base"/{'a "b"\c',plain}
	name=$(printf 'x%.0s' {1..200})
	for _ in {1..6}; do
		path+=/$name
		mkdir "$cgroupfs$path"
	done
	group_begin cgroup
	in_cgroup 'a "b"\c' sleep 0.01
	in_cgroup plain hackbench --groups 1 --loops 5 > /dev/null
	in_cgroup "${path#/schedhist/}" sleep 0.01
	measure 0
	assert_group_laws
	../engine/openmetrics_check.py "$debugfs/group_openmetrics"
	openmetrics_line 'schedhist_group_by_info{rule="cgroup"} 1'
	openmetrics_line 'schedhist_group_oncpu_seconds_count{group="/schedhist/a \"b\"\\x5cc"} '
	# A label of more than 1024 bytes.
	openmetrics_line 'schedhist_groups_left_out 1'
	same groups "$(names_of_groups | wc -l)" "$(value group_openmetrics schedhist_groups)"
	for metric in oncpu runq offcpu; do
		same "count of $metric in plain" "$(value group_openmetrics "schedhist_group_${metric}_seconds_count{group=\"/schedhist/plain\"}")" \
			"$(of_group /schedhist/plain ${metric}_count)"
	done
	same "samples without the group that is left out" \
		$(($(all_groups oncpu_count) - $(of_group "$path" oncpu_count))) \
		"$(samples_of schedhist_group_oncpu_seconds_count)"
	same "waits that others ended" "$(value group_openmetrics 'schedhist_group_ended_by_total{group="/schedhist/plain",culprit="other"}')" \
		"$(of_group /schedhist/plain ended_by_other)"
	before=$(< "$debugfs/group_openmetrics")
	echo 1 > "$debugfs/reset"
	same "after a reset" "$(< "$debugfs/group_openmetrics")" "$before"

	# A thread may have the name of the group of all others.
	cp "$(command -v sleep)" "$work/other"
	group_begin comm
	"$work/other" 0.01
	measure 0
	../engine/openmetrics_check.py "$debugfs/group_openmetrics"
	openmetrics_line 'schedhist_group_oncpu_seconds_count{group="other"} '
	openmetrics_line 'schedhist_group_oncpu_seconds_count{group="other\\#'
}
