#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The files in debugfs: which there are, and what stands in them.

expected_files() {
	local cpu metric
	echo "755 directory ."
	echo "600 regular empty file ./enable"
	echo "400 regular empty file ./status"
	echo "400 regular empty file ./summary"
	echo "755 directory ./hist"
	echo "755 directory ./per_cpu"
	for metric in oncpu idle; do
		echo "400 regular empty file ./hist/$metric"
	done
	for cpu in $(possible_cpus); do
		echo "755 directory ./per_cpu/cpu$cpu"
		for metric in oncpu idle summary; do
			echo "400 regular empty file ./per_cpu/cpu$cpu/$metric"
		done
	done
}

test_files() {
	load
	diff <(expected_files | sort) <(cd "$debugfs" && find . -exec stat -c '%a %F %n' {} + | sort)
	[[ $(find "$debugfs" ! -user 0) == "" ]]
}

check_histograms() {
	local file number=0
	for file in "$debugfs"/hist/* "$debugfs"/per_cpu/cpu*/{oncpu,idle}; do
		awk -f histogram.awk "$file"
		number=$((number + 1))
	done
	same "number of histograms" "$number" $((2 + 2 * $(status cpus_possible)))
}

test_histograms() {
	load
	bench --group 1 --nr_loops 20
	measure 0
	check_histograms
	same metric "$(value hist/idle metric)" idle
	same cpu "$(value hist/idle cpu)" all
	same cpu "$(value per_cpu/cpu1/oncpu cpu)" 1
	assert_law
}

# Disabled from the first moment, but for the few switches while loading.
test_histograms_nearly_empty() {
	load precision=7
	measure 0
	check_histograms
	assert_law
}

# A reader gets a whole text while everything changes, and what a histogram says of its count is
# the sum of its buckets even then.
test_histograms_while_measuring() {
	local i file
	load
	workload_start
	for ((i = 0; i < 10; i++)); do
		for file in hist/oncpu per_cpu/cpu1/oncpu; do
			awk -v file="$file" '
				$1 == "count" { count = $2 }
				$1 == "bucket" { sum += $4 }
				END { if (!NR || sum != count) { print file ": " sum " is not " count; exit 1 } }
			' "$debugfs/$file"
		done
	done
}

test_status() {
	local cpus precision buckets
	load
	same "first line" "$(head -n 1 "$debugfs/status")" "# schedhist status version 1"
	awk 'NR > 1 && (NF != 2 && NF != 3 || $1 !~ /^[a-z0-9_]+$/) { print; bad = 1 } END { exit bad }' \
		"$debugfs/status"
	same version "$(status version)" "$(modinfo -F version "$ko")"
	same enabled "$(status enabled)" 1
	same unit "$(status unit)" ns
	cpus=$(possible_cpus | wc -l)
	same cpus_possible "$(status cpus_possible)" "$cpus"
	precision=$(status precision)
	same precision "$precision" 5
	# Two metrics of so many buckets of 8 bytes, and a little more, but not over the budget.
	buckets=$((((40 - precision + 1) << precision) + 1))
	within memory_bytes $((cpus * 2 * buckets * 8)) "$(status memory_bytes)" $((cpus * 65536))
	measure 0
	same enabled "$(status enabled)" 0
}

test_summary() {
	local cpu
	load
	bench --group 1 --nr_loops 20
	measure 0
	for cpu in all 0 3; do
		file=$debugfs/summary
		[[ $cpu == all ]] || file=$debugfs/per_cpu/cpu$cpu/summary
		same "first line" "$(head -n 1 "$file")" "# schedhist summary version 1, cpu $cpu, disabled"
	done
	awk -v switches="$(status switches)" -v oncpu="$(value hist/oncpu count)" '
		NR == 2 && ($1 != "switches" || $2 != switches || NF != 10) { bad = 1 }
		NR == 4 && $0 !~ /^metric +count +mean +p50 +p90 +p99 +p99.9 +p99.99 +max$/ { bad = 1 }
		NR > 4 { rows[$1] = $2; if (NF != 9) bad = 1 }
		END { exit bad || NR != 6 || rows["oncpu"] != oncpu || !rows["idle"] }
	' "$debugfs/summary" || { cat "$debugfs/summary"; exit 1; }
}
