# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # said
#
# Tests scripts/bed/vm. Sourced by run.

vm_timeout() {
	local seconds
	# On a busy host the boot alone may exceed the shorter timeouts.
	for seconds in 20 60 300; do
		run 124 timeout --signal=KILL $((seconds + 240)) \
			scripts/bed/vm --no-build --timeout "$seconds" -- bash -c 'echo it begins; sleep 1000'
		[[ $said != *"it begins"* ]] || break
	done
	says "it begins" "the command was not done after $seconds s"
}

# QEMU does not start its CPUs (-S): scripts/bed/vm must try three times.
vm_hung() {
	run 125 env SCHEDHIST_SILENCE=5 scripts/bed/vm --no-build --qemu -S -- true
	says "the guest printed nothing for 5 s before the command began: booting again (2 of 3)" "again (3 of 3)" \
		"before the command began, for the third time"
}

# booted_again TIMES: requires that many lines that say that the guest is booted again, besides those
# for QEMU's own bugs, about once in 40 boots.
booted_again() {
	local lines own
	lines=$(grep -c "QEMU died of SIGABRT before the command began: booting again" <<< "$said" || true)
	own=$(grep -cE "(msix_table_mmio_write|iotlb_to_section): .*Assertion" <<< "$said" || true)
	((lines >= $1 && lines <= $1 + own)) || { echo "$lines lines say that it boots again"; exit 1; }
}

# QEMU aborts once, as the kernel begins. Then the second one has the command's arguments, its output and its
# status.
vm_aborts_once() {
	local build plugin
	build=$(. scripts/bed/lib.sh && mktemp -d "$BUILD/abort.XXXXXX")
	# shellcheck disable=SC2064 # as it is now
	trap "rm -rf '$build'" EXIT
	# The folder has another path in the root.
	plugin=/build/${build##*/}
	scripts/bed/root -- gcc-14 -shared -fPIC -O2 -Wall -Wextra -Wno-unused-parameter -Werror -fvisibility=hidden \
		-o "$plugin/abort.so" tests/bed/abort.c
	# shellcheck disable=SC2016 # for the guest
	run 42 env SCHEDHIST_KVM=0 scripts/bed/vm --no-build --qemu "-plugin $plugin/abort.so,done=$plugin/done" \
		--cpus 3 --memory 512M -- bash -c '
		echo "out $(nproc) CPUs, $PWD, $1"; echo "err" >&2
		[[ -r $SCHEDHIST_KO && -d /sys/kernel/tracing/events && -d /sys/kernel/debug/tracing ]] || exit 1
		awk "/MemTotal/ { exit !(\$2 > 350000 && \$2 < 530000) }" /proc/meminfo || exit 2
		! touch new-file 2> /dev/null || exit 3
		exit 42' sh 'one  argument'
	booted_again 1
	says "out 3 CPUs, /schedhist, one  argument" "err"
}

# A kernel report fails the run, however early it is: scripts/bed/vm must not boot the guest again.
vm_panics_early() {
	run 99 scripts/bed/vm --no-build --append "rdinit=/none init=/none root=/dev/none" -- true
	says "Kernel panic"
	booted_again 0
	[[ ${said#*Kernel panic} != *"booting again"* ]]
}

# CPUs that are possible but never present, more than an old APIC has numbers for; and several CPUs that are
# present, with --icount. The kernel goes down, so COMMAND cannot report anything: scripts/bed/vm must.
vm_report() {
	# shellcheck disable=SC2016 # for the guest
	run 99 scripts/bed/vm --no-build --icount --cpus 2 --possible 256 -- bash -c '
		echo "$(nproc) of $(< /sys/devices/system/cpu/possible)"
		echo c > /proc/sysrq-trigger; exit 0'
	says "2 of 0-255" "sysrq triggered crash"
}

vm_possible_bad() {
	run 2 scripts/bed/vm --no-build --cpus 4 --possible 3 -- true
	says "there cannot be 4 CPUs where 3 are possible"
}

# vm_uml_bad OPTION...
vm_uml_bad() {
	run 2 scripts/bed/vm --kernel uml "$@" -- true
	says "uml is a process of the host"
}

check vm/uml-possible vm_uml_bad --possible 4
check vm/uml-icount vm_uml_bad --icount
check vm/uml-qemu vm_uml_bad --qemu -S
check vm/possible-bad vm_possible_bad
check vm/report vm_report
check vm/timeout vm_timeout
check vm/hung vm_hung
check vm/aborts-once vm_aborts_once
check vm/panics-early vm_panics_early
