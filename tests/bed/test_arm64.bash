# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # said
#
# Tests guests of another machine. Sourced by run.

# CPUs that are offline; and a report of another machine's kernel.
vm_arm64() {
	# shellcheck disable=SC2016 # for the guest
	run 99 scripts/bed/vm --no-build --kernel 7.3-arm64 --cpus 2 --possible 4 -- bash -c '
		echo "$(uname -m), $(nproc) of $(< /sys/devices/system/cpu/possible)"
		echo c > /proc/sysrq-trigger'
	says "aarch64, 2 of 0-3" "sysrq triggered crash"
}

# CPU 1 cannot be started, so it is none of the possible CPUs, whose numbers have a gap. A kernel takes no tree
# of devices that is as large as the one that the emulator writes: this leaves out its empty end.
vm_gap() {
	# shellcheck disable=SC2016 # for perl and the guest
	scripts/bed/root -- sh -c 'qemu-system-aarch64 -machine virt,gic-version=3,dumpdtb=/build/gap.dtb -cpu neoverse-n1 \
		-smp 4 -m 1G && perl -0777 -pi -e "$0" /build/gap.dtb' 's/cpu\@1\0.*?\Kpsci\0/none\0/s;
		($strings, $length) = unpack "x12Nx16N"; $_ = substr $_, 0, $strings + $length; substr($_, 4, 4) = pack "N", length'
	run 0 scripts/bed/vm --kernel 7.3-arm64 --with tests/helpers --cpus 4 --qemu "-dtb /build/gap.dtb" -- bash -c '
		cat /sys/devices/system/cpu/possible && tests/guest/run law groups_law raw files histograms long_waits_stress'
	says "0,2-3" "ok raw"
}

check vm/arm64 vm_arm64
check vm/gap vm_gap
