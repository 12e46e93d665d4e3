#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# The files in debugfs: their names and their contents.

expected_files() {
	local cpu metric
	echo "755 directory ."
	echo "600 regular empty file ./enable"
	echo "600 regular empty file ./metrics"
	echo "200 regular empty file ./reset"
	echo "600 regular empty file ./outlier_limit"
	echo "600 regular empty file ./outlier_rate"
	echo "600 regular empty file ./on_outlier"
	for metric in group_by group_rules group_limit group_memory_limit; do
		echo "600 regular empty file ./$metric"
	done
	for metric in status summary openmetrics raw outliers outlier_pipe groups group_summary group_tasks \
		group_hist/{oncpu,runq,offcpu}; do
		echo "400 regular empty file ./$metric"
	done
	echo "755 directory ./hist"
	echo "755 directory ./group_hist"
	echo "755 directory ./per_cpu"
	echo "755 directory ./threshold_ns"
	for metric in "${metrics[@]}"; do
		echo "400 regular empty file ./hist/$metric"
		echo "600 regular empty file ./threshold_ns/$metric"
	done
	for cpu in $(possible_cpus); do
		echo "755 directory ./per_cpu/cpu$cpu"
		echo "755 directory ./per_cpu/cpu$cpu/hist"
		for metric in "${metrics[@]/#/hist/}" summary openmetrics; do
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
	for file in "$debugfs"/hist/* "$debugfs"/per_cpu/cpu*/hist/*; do
		awk -f histogram.awk "$file"
		number=$((number + 1))
	done
	same "number of histograms" "$number" $((${#metrics[@]} * (1 + $(status cpus_possible))))
}

test_histograms() {
	load
	messages 5
	measure 0
	check_histograms
	same metric "$(value hist/idle metric)" idle
	same cpu "$(value hist/idle cpu)" all
	same cpu "$(value per_cpu/cpu1/hist/oncpu cpu)" 1
	assert_laws
}

# Measuring is disabled from the start, except for the few switches while loading.
test_histograms_nearly_empty() {
	load precision=7
	measure 0
	check_histograms
	assert_laws
}

# A reader gets a complete text while everything changes, and even then a histogram's count is the
# sum of its buckets.
test_histograms_while_measuring() {
	local i file
	load
	workload_start
	for ((i = 0; i < 5; i++)); do
		for file in hist/oncpu per_cpu/cpu1/hist/oncpu; do
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
	awk 'NR > 1 && $1 != "metrics" && (NF != 2 && NF != 3 || $1 !~ /^[a-z0-9_]+$/) { print; bad = 1 } END { exit bad }' \
		"$debugfs/status"
	same version "$(status version)" "$(modinfo -F version "$ko")"
	same enabled "$(status enabled)" 1
	same unit "$(status unit)" ns
	cpus=$(possible_cpus | wc -l)
	same cpus_possible "$(status cpus_possible)" "$cpus"
	precision=$(status precision)
	same precision "$precision" 5
	# Seven metrics of this many buckets of 8 bytes, and a little more, but not over the budget.
	buckets=$((((40 - precision + 1) << precision) + 1))
	within memory_bytes $((cpus * 7 * buckets * 8)) "$(status memory_bytes)" $((cpus * 65536))
	measure 0
	same enabled "$(status enabled)" 0
}

test_summary() {
	local cpu
	load
	messages 5
	measure 0
	for cpu in all 0 $(($(nproc) - 1)); do
		file=$debugfs/summary
		[[ $cpu == all ]] || file=$debugfs/per_cpu/cpu$cpu/summary
		same "first line" "$(head -n 1 "$file")" "# schedhist summary version 1, cpu $cpu, disabled"
	done
	awk -v switches="$(status switches)" -v oncpu="$(value hist/oncpu count)" '
		NR == 2 && ($1 != "switches" || $2 != switches || NF != 34) { bad = 1 }
		NR == 4 && $0 !~ /^metric +count +mean +p50 +p90 +p99 +p99.9 +p99.99 +max +worst$/ { bad = 1 }
		NR > 4 { rows[$1] = $2; if (NF < 9) bad = 1 }
		END { exit bad || NR != 12 || rows["oncpu"] != oncpu || !rows["idle"] }
	' "$debugfs/summary" || { cat "$debugfs/summary"; exit 1; }
}

# The file for monitoring systems, parsed by a published client's parser; it agrees with the
# histograms, and a reset does not change it.
test_openmetrics() {
	local before after
	load
	messages 5
	measure 0
	../engine/openmetrics_check.py "$debugfs"/openmetrics "$debugfs"/per_cpu/cpu*/openmetrics > "$work/checked"
	same "files checked" "$(wc -l < "$work/checked")" $((1 + $(status cpus_possible)))
	same "count of oncpu" "$(awk '$1 == "schedhist_oncpu_seconds_count" { print $2 }' "$debugfs/openmetrics")" \
		"$(value hist/oncpu count)"
	same switches "$(awk '$1 == "schedhist_switches_total" { print $2 }' "$debugfs/openmetrics")" \
		"$(status switches)"
	before=$(< "$debugfs/openmetrics")
	echo 1 > "$debugfs/reset"
	after=$(< "$debugfs/openmetrics")
	same "after a reset" "$after" "$before"
}

# The binary snapshot equals the histograms, to the last bucket.
test_raw() {
	local metric cpu
	load
	messages 5
	measure 0
	cat "$debugfs/raw" > "$work/raw"
	note "$(stat -c %s "$work/raw") bytes"
	for metric in runq offcpu idle; do
		diff <(../../tests/rawdump --metric "$metric" < "$work/raw") "$debugfs/hist/$metric"
	done
	for cpu in 0 $(($(nproc) - 1)); do
		diff <(../../tests/rawdump --cpu "$cpu" --metric oncpu < "$work/raw") \
			"$debugfs/per_cpu/cpu$cpu/hist/oncpu"
	done
}

# quantiles_above_max FILE: prints the metrics in rawdump's text with a quantile above the maximum.
quantiles_above_max() {
	awk '
		$1 == "metric" { metric = $2 }
		$1 == "max" { max = $2; found++ }
		/^p[0-9]/ && $2 > max { print metric, $0, "max", max }
		END { if (!found) print "nothing in it" }
	' "$1"
}

# A reset starts the text files from 0 and leaves the snapshot unchanged: all of it, including
# minima and maxima, is since loading. Only the time of the snapshot differs.
test_raw_reset() {
	local dump=../../tests/rawdump i
	load
	for i in 1 2; do
		measure 1
		messages 2
		measure 0
		"$dump" --cpu each < "$debugfs/raw" > "$work/each.$i"
		"$dump" --status < "$debugfs/raw" | grep -v '^time ' > "$work/status.$i"
		cp "$debugfs/openmetrics" "$work/openmetrics.$i"
		echo 1 > "$debugfs/reset"
		diff <("$dump" --cpu each < "$debugfs/raw") "$work/each.$i"
		diff <("$dump" --status < "$debugfs/raw" | grep -v '^time ') "$work/status.$i"
		diff "$debugfs/openmetrics" "$work/openmetrics.$i"
		"$dump" < "$debugfs/raw" > "$work/all"
		same "quantiles above the maximum" "$(quantiles_above_max "$work/all")" ""
		same "count in the text files" "$(value hist/oncpu count)" 0
		same "maxima in the text files" "$(cat "$debugfs"/hist/* | grep -c '^max' || true)" 0
	done
	# The samples before the last reset are in the snapshot, but not in the text.
	measure 1
	messages 1
	measure 0
	within "count in the snapshot" $((1 + $(value hist/oncpu count))) \
		"$("$dump" --metric oncpu < "$debugfs/raw" | awk '$1 == "count" { print $2 }')" 1000000000
}
