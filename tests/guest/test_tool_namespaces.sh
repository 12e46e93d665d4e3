#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016,SC2119,SC2154 # programs of other shells; optional arguments; lib.sh
#
# The command in containers, which share the module, but not their PIDs, cgroups and /run; and what
# it leaves if it is killed.

# shellcheck source=tests/guest/tool.bash
. ./tool.bash

# make_programs: writes burn.py, which computes for half a second; naps.py, which sleeps 100 times a
# second; and headless.py, which does so in a thread that outlives the first one.
make_programs() {
	cat > "$work/burn.py" <<- 'END'
		import time
		end = time.process_time() + 0.5
		while time.process_time() < end: pass
	END
	cat > "$work/naps.py" <<- 'END'
		import time
		while True: time.sleep(0.01)
	END
	cat > "$work/headless.py" <<- 'END'
		import ctypes, platform, sys, threading, time
		def naps():
		    end = time.monotonic() + float(sys.argv[1])
		    while time.monotonic() < end: time.sleep(0.01)
		threading.Thread(target=naps).start()
		ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
	END
}

# Runs a command in a PID namespace, as its PID 1.
contained=(unshare --pid --fork --kill-child --mount-proc)

# on_cpu_ms FILE: prints for how long the command of a `run` was on a CPU; nothing if it does not say.
on_cpu_ms() {
	sed -nE 's/^command: .*, ([0-9.]+)([mu]?s) on CPU.*/\1 \2/p' "$1" |
		awk '{ print int($1 * ($2 == "s" ? 1000 : $2 == "us" ? 0.001 : 1)) }'
}

# has_burnt FILE: asserts that `run` says that its command was on a CPU for half a second or more.
has_burnt() {
	local ms
	ms=$(on_cpu_ms "$1")
	[[ -n $ms ]] || fail "no line 'command': $(< "$1")"
	within "milliseconds on CPU" 450 "$ms" 100000
}

# owners: prints the rules of the list without the numbers after the PIDs.
owners() { sed -nE '/^rule /{s/^rule ([^ ]*).*/\1/;s/^(schedhist-run-[0-9]+)-[-0-9]*$/\1/;p}' "$debugfs/group_rules" | sort | xargs; }

has_owners() { [[ $(owners) == "$*" ]]; }

# samples FILE: prints how many samples the tables of BCC's kind have.
samples() { awk '$2 == "->" { sum += $5 } END { print sum + 0 }' "$1"; }

# `run` in containers measures its command alone, and leaves the rules of each `run` that is alive.
test_tool_pidns() {
	local host one
	begin_tool
	make_programs
	echo list > "$debugfs/group_by"
	"$SCHEDHIST_TOOL" run -- sleep 300 2> host &
	host=$!
	background "$host"
	waits_for has_owners "schedhist-run-$host"
	# Both are PID 1.
	"${contained[@]}" "$SCHEDHIST_TOOL" run -- sleep 300 2> one &
	one=$!
	background "$one"
	waits_for has_owners "schedhist-run-1 schedhist-run-$host"
	"${contained[@]}" "$SCHEDHIST_TOOL" run -- python3 -SE "$work/burn.py" 2> two
	has_burnt two
	same "the rules" "$(owners)" "schedhist-run-1 schedhist-run-$host"
	ends_with 0 tool run -- python3 -SE "$work/burn.py"
	has_burnt complaints
	same "the rules" "$(owners)" "schedhist-run-1 schedhist-run-$host"
	# Rules have the PIDs of the initial namespace.
	grep -q "^rule schedhist-run-1-.* children $(pgrep -f 'sleep 300' -n)$" "$debugfs/group_rules" ||
		fail "other PIDs: $(< "$debugfs/group_rules")"
	# On the host one can tell whether a container's is alive, but not the other way round.
	kill -KILL "$one"
	status_of "$one" 137
	waits_for sleepers_are 1
	ends_with 0 tool doctor
	says said "group_rules has schedhist-run-1-"
	ends_with 0 tool run -- true
	same "the rules" "$(owners)" "schedhist-run-$host"
	kill -KILL "$host"
	status_of "$host" 137
	pkill -KILL -xf "sleep 300"
	"${contained[@]}" "$SCHEDHIST_TOOL" run -- true 2> two
	says two "command: "
	same "the rules" "$(owners)" "schedhist-run-$host"
	ends_with 0 tool ctl group_by
	same "the rules" "$(owners)" ""
}

# sleepers_are NUMBER: whether there are so many `sleep 300`.
sleepers_are() { (($(pgrep -fc '^sleep 300') == $1)); }

# -p means the process that the user sees under this PID, or is refused.
test_tool_pidns_process() {
	begin_tool
	make_programs
	"${contained[@]}" bash -c '
		python3 -SE "$1/naps.py" & sleep 1
		"$2" cpudist -p $! 3 1 > "$1/tables" 2>&1; echo "$?" > "$1/status"
		echo "process $!" > "$3"; cat "$3" > "$1/rule"
		"$2" cpudist -p $! 1 1 > "$1/refused" 2>&1; echo "$?" >> "$1/status"
		"$2" runqlat --pidnss 1 1 >> "$1/refused" 2>&1; echo "$?" >> "$1/status"
		"$2" runqslower -p $! >> "$1/refused" 2>&1; echo "$?" >> "$1/status"
	' bash "$work" "$SCHEDHIST_TOOL" "$debugfs/group_by"
	same "the status" "$(xargs < status)" "0 1 1 1"
	within "samples in 3 s" 60 "$(samples tables)" 100000
	says refused "tasks are grouped by '$(< rule)' already"
	says refused "--pidnss: the module shows the PIDs of the initial namespace"
	[[ $(< rule) =~ ^process\ [0-9]{2,}$ ]] || fail "not a PID of the initial namespace: $(< rule)"
	echo none > "$debugfs/group_by"
	# /proc shows another namespace: PID 1 may be either one.
	ends_with 1 unshare --pid --fork "$SCHEDHIST_TOOL" cpudist -p 1 1 1
	says complaints "/proc does not show the PID namespace of this process"
	grouped_by none
}

# A process of which the first thread has ended is one all the same.
test_tool_leader_gone() {
	local pid
	begin_tool
	cgroups_on
	make_programs
	python3 -SE "$work/headless.py" 60 &
	pid=$!
	background "$pid"
	waits_for grep -q '^State:.Z' "/proc/$pid/status"
	ends_with 0 tool cpudist -p "$pid" 3 1
	within "samples in 3 s" 60 "$(samples said)" 100000
	kill -KILL "$pid"
	status_of "$pid" 137
	for rule in none list; do
		echo none > "$debugfs/group_by"
		echo "$rule" > "$debugfs/group_by"
		ends_with 0 tool run -j -- python3 -SE "$work/headless.py" 2
		grep '^{' complaints > json
		check_tool counts json 100 100000
	done
}

# in_cgroupns CGROUP COMMAND...: runs a command in a cgroup namespace that has this root, and with its
# hierarchy mounted, if $mounts is set.
in_cgroupns() {
	bash -c '
		echo $$ > "$1/cgroup.procs"
		exec unshare --cgroup --mount bash -c '\''
			[[ -z $0 ]] || { umount "$1" && mount -t cgroup2 none "$1"; }
			exec "${@:2}"
		'\'' "$2" "$3" "${@:4}"
	' bash "$1" "${mounts-}" "$cgroupfs" "${@:2}"
}

# `run` in a cgroup namespace measures its command, and does not move it out of the container.
test_tool_cgroupns() {
	local rule mounts
	begin_tool
	cgroups_on
	make_programs
	mkdir -p "$base/pod/ctr"
	for mounts in yes ''; do
		for rule in none cgroup list; do
			[[ $mounts$rule != cgroup ]] || continue
			echo none > "$debugfs/group_by"
			echo "$rule" > "$debugfs/group_by"
			ends_with 0 in_cgroupns "$base/pod/ctr" "$SCHEDHIST_TOOL" run -- \
				sh -c "cat /proc/self/cgroup; exec python3 -SE '$work/burn.py'"
			has_burnt complaints
			! grep -q '\.\.' said || fail "the command has left its container: $(< said)"
			grouped_by "$rule"
		done
	done
	echo cgroup > "$debugfs/group_by"
	# Where it cannot be measured by itself, it is run.
	ends_with 7 in_cgroupns "$base/pod/ctr" "$SCHEDHIST_TOOL" run -- sh -c 'exit 7'
	says complaints "is not the cgroup of this process"
	mounts=yes
	ends_with 1 in_cgroupns "$base/pod/ctr" "$SCHEDHIST_TOOL" runqlat -c /a 1 1
	says complaints "-c: the module shows the paths of the initial cgroup namespace"
}

# A command is executed although no process can enter a cgroup below a threaded one.
test_tool_threaded() {
	begin_tool
	cgroups_on
	mkdir -p "$base/domain/threads"
	echo threaded > "$base/domain/threads/cgroup.type"
	for rule in none cgroup; do
		echo "$rule" > "$debugfs/group_by"
		ends_with 7 bash -c '
			echo $$ > "$1/cgroup.procs" && echo $$ > "$1/threads/cgroup.threads"
			exec "$2" run -- sh -c "echo executed; exit 7"
		' bash "$base/domain" "$SCHEDHIST_TOOL"
		says said executed
		case $rule in
		none) says complaints "command: " ;;
		cgroup) says complaints "only the machine is measured, not the command by itself: " ;;
		esac
		grouped_by "$rule"
		[[ -z $(find "$cgroupfs" -name 'schedhist-run-*') ]] || fail "a cgroup is left"
	done
}

# Without a /run that can be written nothing is lent, and the command is executed.
test_tool_own_run() {
	local host
	begin_tool
	cgroups_on
	ends_with 7 unshare --mount sh -c 'mount -t tmpfs -o ro none /run && exec "$@"' sh \
		"$SCHEDHIST_TOOL" run -- sh -c 'exit 7'
	says complaints "only the machine is measured, not the command by itself: /run/schedhist.lock"
	grouped_by none
	# Two that do not know of each other: neither takes the list from the other.
	echo list > "$debugfs/group_by"
	ends_with 0 unshare --mount sh -c 'mount -t tmpfs -o ro none /run && exec "$@"' sh \
		"$SCHEDHIST_TOOL" run -- true
	says complaints "command: "
	echo none > "$debugfs/group_by"
	umount "$cgroupfs"
	unshare --mount sh -c 'mount -t tmpfs none /run && exec "$@"' sh \
		"$SCHEDHIST_TOOL" run -- sleep 300 2> /dev/null &
	host=$!
	background "$host"
	soon_grouped_by list
	waits_for has_owners "schedhist-run-$host"
	ends_with 0 tool run -- true
	says complaints "command: "
	same "the rules" "$(owners)" "schedhist-run-$host"
	mount -t cgroup2 none "$cgroupfs"
}

# killed ARGUMENT...: kills the command once the shell's word $until is true.
killed() {
	local pid
	"$SCHEDHIST_TOOL" "$@" > /dev/null 2>&1 &
	pid=$!
	background "$pid"
	waits_for eval "$until"
	kill -KILL "$pid"
	status_of "$pid" 137
}

# What a killed command has written is found by all verbs, and restored by those that write.
test_tool_killed() {
	local until
	begin_tool
	cgroups_on
	until='! holds "$debugfs/threshold_ns/runq" none && ls "$tracefs/instances" | grep -q .'
	killed watch -T 60000000 --on-threshold trace --stacks
	until=true
	for verb in "hist runq" "top --once" doctor; do
		# shellcheck disable=SC2086 # two words
		ends_with 0 tool $verb
		cat said complaints > all
		says all "on_outlier is 'tracing_off', left by a schedhist that has ended (PID "
		says all "threshold_ns/runq is '60000000000', left by a schedhist that has ended"
		says all "is of a schedhist watch that was killed"
		says all "schedhist ctl restores"
		narrow complaints
		same on_outlier "$(< "$debugfs/on_outlier")" tracing_off
	done
	grep -q '^warn  settings ' said || fail "doctor is content: $(< said)"
	ends_with 0 tool ctl
	says said "on_outlier none"
	says complaints "on_outlier is 'tracing_off', left by a schedhist that has ended"
	same threshold "$(< "$debugfs/threshold_ns/runq")" none
	same instances "$(ls "$tracefs/instances")" ""
	ends_with 0 tool doctor
	grep -q '^ok    settings ' said || fail "doctor is not content: $(< said)"
	# What a living one needs stays.
	"$SCHEDHIST_TOOL" watch -T 60000000 --on-threshold trace 2> /dev/null &
	background "$!"
	waits_for eval '! holds "$debugfs/threshold_ns/runq" none'
	ends_with 0 tool doctor
	says said "a schedhist needs on_outlier"
	ends_with 0 tool ctl
	same on_outlier "$(< "$debugfs/on_outlier")" tracing_off
	kill -INT "$!"
	status_of "$!" 0
	# Only what it has written itself.
	until='pgrep -xf "sleep 299"'
	killed run -- sleep 299
	pkill -KILL -xf "sleep 299"
	echo none > "$debugfs/group_by"
	echo cgroup > "$debugfs/group_by"
	ends_with 0 tool run -- true
	grouped_by cgroup
	ends_with 0 tool ctl
	grouped_by cgroup
	echo none > "$debugfs/group_by"
	killed run -- sleep 299
	ends_with 0 tool ctl
	says complaints "group_by is 'cgroup', left by a schedhist that has ended"
	grouped_by none
	pkill -KILL -xf "sleep 299"
	ends_with 0 tool run -- true
	[[ -z $(find "$cgroupfs" -name 'schedhist-run-*') ]] || fail "a cgroup is left"
	# One that has left no note here.
	ends_with 137 unshare --mount --pid --fork --mount-proc sh -c '
		mount -t tmpfs none /run
		"$1" watch -T 60000000 --on-threshold trace & sleep 3; kill -KILL $!; wait $!
	' sh "$SCHEDHIST_TOOL"
	same on_outlier "$(< "$debugfs/on_outlier")" tracing_off
	ends_with 0 tool doctor
	says said "on_outlier is 'tracing_off', for no schedhist that is known here"
}
