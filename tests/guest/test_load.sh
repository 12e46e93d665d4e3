#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # variables of lib.sh
#
# Loading, with good and bad parameters, and what a failed load leaves behind.

test_precision() {
	local precision
	for precision in 1 7; do
		load precision="$precision"
		same precision "$(status precision)" "$precision"
		messages 2
		measure 0
		same precision "$(value hist/oncpu precision)" "$precision"
		awk -f histogram.awk "$debugfs/hist/oncpu"
		assert_laws
		unload
		assert_gone
	done
}

# refused VALUE ERROR LOG-LINE
refused() {
	mark_log "precision=$1"
	fails_with "$2" load precision="$1"
	same "log of precision=$1" "$(log_since "precision=$1" | grep schedhist)" "$3"
	assert_gone
}

test_precision_refused() {
	local range="expected 1 to 7"
	# The kernel logs once for each boot that an out-of-tree module taints it.
	load
	unload
	refused 0 "Invalid parameters" "schedhist: precision: \"0\": $range"
	refused 8 "Invalid parameters" "schedhist: precision: \"8\": $range"
	refused 4294967295 "Invalid parameters" "schedhist: precision: \"4294967295\": $range"
	# The kernel itself refuses these, with its own messages.
	refused -1 "Invalid parameters" "schedhist: \`-1' invalid for parameter \`precision'"
	refused abc "Invalid parameters" "schedhist: \`abc' invalid for parameter \`precision'"
	refused 99999999999 "Numerical result out of range" \
		"schedhist: \`99999999999' invalid for parameter \`precision'"
}

# The directory in debugfs exists already, created by a twin of the module under another name.
test_clash() {
	local lines
	# The module's name field has room after it, so that the name can be replaced.
	LC_ALL=C sed 's/schedhist\(\x00\{40\}\)/schedhisu\1/' "$ko" > "$work/schedhisu.ko"
	! cmp -s "$ko" "$work/schedhisu.ko" || fail "cannot make a twin"
	load
	mark_log clash
	# A module's EEXIST would mean that it is already loaded: the kernel turns it into EBUSY.
	fails_with "Device or resource busy" insmod "$work/schedhisu.ko"
	lines=$(log_since clash | grep '^schedhis[tu]: ')
	same "lines in the log" "$(wc -l <<< "$lines")" 1
	[[ $lines == *"cannot create the files in debugfs: EEXIST" ]] || fail "the log: $lines"
	! loaded schedhisu || fail "the twin is loaded"
	messages 2
	measure 0
	assert_laws
	unload
	assert_gone
}

# Both parameters can be read, and cannot be written.
test_load_parameters() {
	local folder=/sys/module/schedhist/parameters
	load
	same parameters "$(cd "$folder" && stat -c '%n %a' -- * | paste -sd ' ')" "group_by 444 group_rules 444 metrics 444 precision 444"
	same precision "$(parameter schedhist precision)" 5
	same metrics "$(parameter schedhist metrics)" default
	unload
	load precision=0x7 metrics=oncpu,idle
	same precision "$(parameter schedhist precision)" 7
	same metrics "$(parameter schedhist metrics)" oncpu,idle
	same "precision in use" "$(status precision)" 7
}
