#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# schedhist's memory: as much as it reports, and no more than its budget.

# shellcheck source=tests/memory.bash
. ../memory.bash

# 64 KiB for each possible CPU, 64 bytes for each task, in pages of 64 consecutive PIDs, and 512 KiB
# for a table of these pages, at defaults.
test_memory() {
	local cpus records tasks pages table=$((512 * 1024))
	load
	cpus=$(status cpus_possible)
	records=$(status memory_bytes)
	within "bytes for each CPU" 1 $((records / cpus)) 65536
	tasks=$(status task_memory_bytes)
	pages=$(pages_of_tasks)
	note "$((records / cpus)) bytes for each CPU, $tasks bytes for tasks in $pages pages"
	# Tasks have come and gone meanwhile.
	within "bytes for tasks" $((table + (pages - 2) * 4096)) "$tasks" $((table + (pages + 3) * 4096))
	measure 0
	same "bytes for tasks while measuring is off" "$(status task_memory_bytes)" 0
}

# pages_of_tasks: prints the number of pages that hold the state of an existing task, including the
# idle tasks.
pages_of_tasks() {
	{
		echo 0
		task_ids
	} | awk '{ pages[int($1 / 64)] } END { print length(pages) }'
}

# kmallocs ARGUMENT...: loads the module with the arguments, and prints the memory that the kernel's
# allocator gave to insmod meanwhile: "REQUESTED GIVEN" for each piece of more than 4 KiB, in bytes.
# Large pieces are traced twice, with the same address.
kmallocs() {
	echo "bytes_req > 4096" > "$tracefs/events/kmem/kmalloc/filter"
	echo 1 > "$tracefs/events/kmem/kmalloc/enable"
	echo > "$tracefs/trace"
	load "$@"
	echo 0 > "$tracefs/events/kmem/kmalloc/enable"
	echo 0 > "$tracefs/events/kmem/kmalloc/filter"
	sed -nE '/^ *insmod-/s/.* (ptr=[^ ]+) bytes_req=([0-9]+) bytes_alloc=([0-9]+) .*/\1 \2 \3/p' \
		"$tracefs/trace" | sort -u | cut -d ' ' -f 2,3
}

# The records of a CPU are one piece, which takes no more than 64 KiB in the allocator.
test_memory_in_pieces() {
	local cpus arguments each pieces given
	[[ -e $tracefs/events/kmem/kmalloc/enable ]] || skip "the kernel has no kmem:kmalloc"
	for arguments in precision=5 precision=4 "precision=5 metrics=all" "precision=7 metrics=all"; do
		# shellcheck disable=SC2086 # several arguments
		kmallocs $arguments > "$work/kmallocs"
		cpus=$(status cpus_possible)
		each=$(($(status memory_bytes) / cpus))
		pieces=$(awk -v each="$each" '$1 == each' "$work/kmallocs" | wc -l)
		((pieces == cpus)) || cat "$work/kmallocs"
		same "pieces of $each bytes, with $arguments" "$pieces" "$cpus"
		given=$(awk -v each="$each" '$1 == each { print $2 }' "$work/kmallocs" | sort -u)
		note "$arguments: $each bytes for each CPU, and the allocator gives $given"
		[[ $arguments != precision=5 ]] || within "bytes given" "$each" "$given" 65536
		unload
	done
}

# Everything that loading allocates: the records, the task states, and 1 MiB for the module and its
# files. Other tasks allocate and free memory meanwhile, so this takes the least of several counts.
test_memory_in_all() {
	local before taken least='' allowed
	for ((i = 0; i < 5; i++)); do
		before=$(unreclaimable)
		load
		taken=$(($(unreclaimable) - before))
		allowed=$(($(status cpus_possible) * 65536 + $(status task_memory_bytes) + (1 << 20)))
		[[ -n $least ]] && ((least <= taken)) || least=$taken
		unload
	done
	note "$least bytes of $allowed"
	((least <= allowed)) || fail "loading takes $least bytes, wanted at most $allowed"
}

# The task states follow the PIDs in use: thousands of tasks come and go, and leave no more behind
# than a sweep may leave.
test_memory_follows_pids() {
	# There is a page for each 64 PIDs: here each task needs a page of its own.
	local before after code='import os
last = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY)
for pid in range(1000, 40000, 64):
    os.pwrite(last, str(pid).encode(), 0)
    assert (os.fork() or os._exit(0)) // 64 == pid // 64
    os.wait()'
	[[ -e /proc/sys/kernel/ns_last_pid ]] || skip "the kernel does not say which PID comes next"
	load metrics=all
	before=$(status task_memory_bytes)
	echo 4194304 > /proc/sys/kernel/pid_max
	python3 -SE -c "$code"
	after=$(status task_memory_bytes)
	note "$before bytes before, $after after 600 tasks with a page each"
	within "bytes for tasks" 1 "$after" $((before + 300 * 4096))
	measure 0
	assert_laws untracked=0
}

# What may sleep asks for memory as such: the pages of the states of tasks, when measuring is switched on.
test_memory_at_enable() {
	local event=$tracefs/events/kmem/kmalloc
	[[ -e $event/enable ]] || skip "the kernel has no kmem:kmalloc"
	load
	measure 0
	echo "bytes_req == 4096" > "$event/filter"
	echo > "$tracefs/trace"
	echo 1 > "$event/enable"
	measure 1
	echo 0 > "$event/enable"
	echo 0 > "$event/filter"
	# Not those of tasks that others create meanwhile.
	grep -e "-$BASHPID .*schedhist.* bytes_req=4096 " "$tracefs/trace" > "$work/pages" ||
		fail "no page was allocated: $(< "$tracefs/trace")"
	! grep -vF GFP_KERNEL "$work/pages" || fail "these may not sleep"
	within "pages of existing tasks" 1 "$(wc -l < "$work/pages")" "$(pages_of_tasks)"
}
