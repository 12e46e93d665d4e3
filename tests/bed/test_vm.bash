# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # said
#
# scripts/vm: six boots. Sourced by run.

vm_passes_through() {
	# shellcheck disable=SC2016 # for the guest
	run 42 scripts/vm --cpus 3 --memory 512M -- bash -c '
		echo "out $(nproc) CPUs, $PWD, $1"; echo "err" >&2
		[[ -r $SCHEDHIST_KO && -d /sys/kernel/tracing/events && -d /sys/kernel/debug/tracing ]] || exit 1
		awk "/MemTotal/ { exit !(\$2 > 350000 && \$2 < 530000) }" /proc/meminfo || exit 2
		! touch new-file 2> /dev/null || exit 3
		exit 42' sh 'one  argument'
	says "out 3 CPUs, /schedhist, one  argument" "err"
}

# The kernel goes down. COMMAND cannot say anything about it.
vm_report() {
	run 99 scripts/vm --no-build -- bash -c 'echo c > /proc/sysrq-trigger; exit 0'
	says "sysrq triggered crash"
}

vm_timeout() {
	run 124 timeout --signal=KILL 300 scripts/vm --no-build --timeout 60 -- sleep 1000
	says "the command was not done after 60 s"
}

# The emulator holds its CPUs from the start: it is tried three times.
vm_hung() {
	run 125 env SCHEDHIST_SILENCE=5 scripts/vm --no-build --qemu -S -- true
	says "the guest has said nothing for 5 s" "the guest never came to run the command"
}

# CPUs that are possible, but never there; and with --icount as many as wanted that are.
vm_possible() {
	# shellcheck disable=SC2016 # for the guest
	run 0 scripts/vm --no-build --icount --cpus 2 --possible 64 -- bash -c '
		echo "$(nproc) of $(< /sys/devices/system/cpu/possible)"'
	says "2 of 0-63"
}

vm_possible_bad() {
	run 1 scripts/vm --no-build --cpus 4 --possible 3 -- true
	says "there cannot be 4 CPUs where 3 are possible"
}

check vm/passes-through vm_passes_through
check vm/possible vm_possible
check vm/possible-bad vm_possible_bad
check vm/report vm_report
check vm/timeout vm_timeout
check vm/hung vm_hung
