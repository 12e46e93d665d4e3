# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Makes allocations fail, one after the other. Sourced by the tests that do so.

attrs=(/sys/kernel/debug/failslab /sys/kernel/debug/fail_page_alloc)
ENOMEM=12

# Records each allocation that failed, with its stack.
places=$tracefs/instances/schedhist_places

# symbol NAME...: prints the address of each kernel function, and the address of the symbol after
# it.
symbols() {
	awk -v names="$*" '
		BEGIN { n = split(names, name); for (i = 1; i <= n; i++) wanted[name[i]] }
		$4 != "" { exit }
		last != "" && $1 != first[last] { after[last] = $1; last = "" }
		$3 in wanted && !($3 in first) { first[last = $3] = $1 }
		END { for (i = 1; i <= n; i++) print name[i], "0x" first[name[i]], "0x" after[name[i]] }
	' /proc/kallsyms
}

# faults_on: sets up fault injection. It fails the allocations that the module asks for, directly or
# through others: those with an address above the kernel's own text on the stack.
#
# It spares those of kmemleak and KASAN, which the kernel makes on the way and can do without.
faults_on() {
	local attr name first after
	local -A from to
	[[ -e /proc/self/fail-nth && -e $tracefs/kprobe_events && -e ${attrs[0]}/require-start &&
		-e ${attrs[1]}/require-start ]] ||
		is_beyond debug "the kernel cannot make allocations fail: it wants CONFIG_FAILSLAB, CONFIG_KPROBE_EVENTS," \
			"CONFIG_FAIL_PAGE_ALLOC and CONFIG_FAULT_INJECTION_STACKTRACE_FILTER"
	helper fail_nth
	[[ -s $work/symbols ]] ||
		symbols _etext __create_object __link_object stack_depot_save_flags kernel_clone > "$work/symbols"
	while read -r name first after; do
		from[$name]=$first
		to[$name]=$after
	done < "$work/symbols"
	module_code=${from[_etext]}
	fork_code=("${from[kernel_clone]}" "${to[kernel_clone]}")
	for attr in "${attrs[@]}"; do
		echo 0 > "$attr/verbose"
		echo 32 > "$attr/stacktrace-depth"
		echo N > "$attr/ignore-gfp-wait"
		echo Y > "$attr/task-filter"
		echo 1 > "$attr/interval"
		echo 0 > "$attr/space"
		echo -1 > "$attr/times"
	done
	echo 0 > "${attrs[1]}/min-order"
	rejected "${attrs[0]}" "${from[__create_object]}" "${to[__link_object]}"
	rejected "${attrs[1]}" "${from[stack_depot_save_flags]}" "${to[stack_depot_save_flags]}"
	in_module_only
	for attr in "${attrs[@]}"; do echo 100 > "$attr/probability"; done
	places_start
	attempts=0 failures=0 usual=0
}

# rejected ATTR FROM TO
rejected() {
	echo "$2" > "$1/reject-start"
	echo "$3" > "$1/reject-end"
}

in_module_only() {
	local attr
	for attr in "${attrs[@]}"; do echo "$module_code" > "$attr/require-start"; done
}

# Fails all allocations of the task, those of the kernel as well.
anywhere() {
	local attr
	for attr in "${attrs[@]}"; do echo 0 > "$attr/require-start"; done
}

# Called by cleanup() as well.
faults_off() {
	local attr probe
	for attr in "${attrs[@]}"; do
		[[ -e $attr ]] || continue
		echo 0 > "$attr/probability"
		echo Y > "$attr/task-filter"
	done
	[[ ! -d $places ]] || rmdir "$places"
	for probe in slab page; do
		! grep -q ":schedhist_places/$probe " "$tracefs/kprobe_events" 2> /dev/null ||
			echo "-:schedhist_places/$probe" >> "$tracefs/kprobe_events"
	done
}

# operation OPERATION ARGUMENT...: sets the operation that attempt performs from now on.
operation() {
	[[ -z ${doer-} ]] || operation_end
	coproc DOER { exec "$work/fail_nth" "$@"; }
	doer=$DOER_PID
	exec {to_doer}>&"${DOER[1]}" {from_doer}<&"${DOER[0]}"
	eval "exec ${DOER[1]}>&- ${DOER[0]}<&-"
}

operation_end() {
	exec {to_doer}>&- {from_doer}<&-
	wait "$doer"
	doer=
}

# attempt HOW N [PID]: performs the operation. Sets `failed` to whether any allocation
# failed; `errno`, which is 0 if the operation succeeded; `bytes` and `hash` of the data read; and
# `asked`, the number of allocations. $usual is the errno without any failure. Does not fork.
attempt() {
	echo "$*" >&"$to_doer"
	read -r failed errno bytes hash asked <&"$from_doer" || fail "the program has ended in attempt $*"
	((attempts += 1, failures += failed, 1))
	((errno == usual || errno == ENOMEM && failed)) ||
		fail "attempt $*: errno $errno, where $failed allocations failed"
}

# --- the places where they failed ---

places_start() {
	local probe
	# shellcheck disable=SC2016 # for the kernel
	{
		echo 'r:schedhist_places/slab should_failslab ret=$retval:s32'
		echo 'r:schedhist_places/page should_fail_alloc_page ret=$retval:u8'
	} >> "$tracefs/kprobe_events"
	mkdir "$places"
	echo 8192 > "$places/buffer_size_kb"
	echo 1 > "$places/options/stacktrace"
	echo 1 > "$places/options/sym-offset"
	for probe in "$places"/events/schedhist_places/*/; do
		echo "ret != 0" > "$probe/filter"
		echo 1 > "$probe/enable"
	done
}

# places_note: prints the number of failures and of distinct places. The module must not be loaded:
# all of its functions then appear as addresses, whose last digits are the same for each load.
places_note() {
	! loaded schedhist || fail "the module is loaded"
	same "events lost" "$(grep -hE '^(overrun|dropped events): [^0]' "$places"/per_cpu/*/stats || true)" ""
	awk -v attempts="$attempts" -v failures="$failures" '
		function end() {
			if (place == "") return
			all++
			if (place ~ /0xffffffff/) {
				ours++
				while (match(place, /0xffffffff[0-9a-f]*/))
					place = substr(place, 1, RSTART - 1) "schedhist+" \
						substr(place, RSTART + RLENGTH - 3, 3) substr(place, RSTART + RLENGTH)
				if (!count[place]++) distinct++
			}
			place = ""
		}
		/<stack trace>/ { end(); next }
		/^ *=> / { place = place " " $2; next }
		END {
			end()
			printf "# %d attempts, %d of them with a failure: %d allocations failed, " \
				"%d of them in the module, %d distinct places\n", attempts, failures, all, ours,
				distinct
			for (place in count) print count[place] place > "/tmp/places"
		}
	' "$places/trace"
	echo > "$places/trace"
}

# --- what a test leaves behind ---

# Asserts that there is no CPU hotplug state: none exists while the probes are off, or after their
# registration failed.
assert_no_probe() {
	local states
	mapfile -t states < /sys/devices/system/cpu/hotplug/states
	[[ ${states[*]} != *schedhist* ]] || fail "there still is a state of CPU hotplug"
}

# Asserts that nothing of the module is left. The next switch would call a leftover probe, whose
# code is gone.
assert_no_trace() {
	assert_gone
	assert_no_probe
}

# field KEY: like `status`, without a fork.
field() {
	local line lines
	mapfile -t lines < "$debugfs/status"
	for line in "${lines[@]}"; do
		[[ $line != "$1 "* ]] || REPLY=${line#* }
	done
}

# file NAME: reads a file of one line, without a fork.
file() { read -r REPLY < "$debugfs/$1"; }
