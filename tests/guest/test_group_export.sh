#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The groups as Prometheus gets them from the command. scripts/bed/vm --tool builds the command.

# shellcheck source=tests/guest/tool.bash
. ./tool.bash

# exported: writes the metrics to $work/metrics, and checks them with a published client's parser.
exported() {
	tool export --once --format openmetrics > "$work/metrics"
	"$here/../engine/openmetrics_check.py" "$work/metrics"
}

# samples_of NAME: prints the sum of a family over groups.
samples_of() { awk -v name="$1" 'index($1, name "{") == 1 { n += $NF } END { print n + 0 }' "$work/metrics"; }

# exported_value NAME: prints the value of a sample.
exported_value() { name=$1 awk '$1 == ENVIRON["name"] { print $2 }' "$work/metrics"; }

# histogram_count METRIC [NAME]: prints the number of samples in the histogram of a group, or of all.
histogram_count() {
	name=${2-} awk '
		$1 == "name" { is_it = ENVIRON["name"] == "" || substr($0, 6) == ENVIRON["name"] }
		$1 == "count" && is_it { n += $2 }
		END { print n + 0 }
	' "$debugfs/group_hist/$1"
}

# has_line TEXT: asserts that a line of the metrics begins so, once.
has_line() {
	same "lines that begin with $1" "$(text=$1 awk 'index($0, ENVIRON["text"]) == 1' "$work/metrics" | wc -l)" 1
}

# A published client's parser takes the text, whatever the names are, and it agrees with `groups`.
test_group_export() {
	local before metric name path=/schedhist
	cgroups_on
	need_tool
	load
	exported
	! grep schedhist_group "$work/metrics" || fail "tasks are not grouped"
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
	exported
	has_line 'schedhist_group_by_info{rule="cgroup"} 1'
	has_line 'schedhist_group_oncpu_seconds_count{group="/schedhist/a \"b\"\\x5cc"} '
	has_line "schedhist_group_oncpu_seconds_count{group=\"$path\"} "
	has_line 'schedhist_left_out{scope="group"} 0'
	same groups "$(names_of_groups | wc -l)" "$(exported_value schedhist_groups)"
	for metric in oncpu runq offcpu; do
		same "count of $metric in plain" "$(exported_value "schedhist_group_${metric}_seconds_count{group=\"/schedhist/plain\"}")" \
			"$(histogram_count "$metric" /schedhist/plain)"
	done
	same "samples of all groups" "$(histogram_count oncpu)" "$(samples_of schedhist_group_oncpu_seconds_count)"
	same limit "$(< "$debugfs/group_limit")" "$(exported_value schedhist_group_limit)"
	same memory "$(head_of memory_bytes)" "$(exported_value schedhist_group_memory_bytes)"
	for metric in ended_by preempted_by; do
		same "$metric others" "$(exported_value "schedhist_group_${metric}_total{group=\"/schedhist/plain\",culprit=\"other\"}")" \
			"$(of_group /schedhist/plain ${metric}_other)"
	done
	before=$(grep '^schedhist_group' "$work/metrics")
	echo 1 > "$debugfs/reset"
	exported
	same "after a reset" "$(grep '^schedhist_group' "$work/metrics")" "$before"

	# A thread may have the name of the group of all others.
	cp "$(command -v sleep)" "$work/other"
	group_begin comm
	"$work/other" 0.01
	measure 0
	exported
	has_line 'schedhist_group_oncpu_seconds_count{group="other"} '
	has_line 'schedhist_group_oncpu_seconds_count{group="other\\#'
}
