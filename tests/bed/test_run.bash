# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2016,SC2154 # programs; said, work
#
# tests/run: that suites run side by side, what is shown of them, and what is left when it is ended. With
# suites that take no time. Sourced by run.

# fake FILE LINE...: a script of that tree.
fake() {
	mkdir -p "$(dirname "$tree/$1")"
	printf '%s\n' '#!/bin/bash' "cd '$tree'" "${@:2}" > "$tree/$1"
	chmod +x "$tree/$1"
}

# tree FUNCTION: in a tree with tests/run as it is, and a cache of its own.
tree() {
	tree=$work/tree
	rm -rf "$tree"
	mkdir -p "$tree/tests" "$tree/scripts" "$tree/tmp"
	cp tests/run tests/jobs.bash tests/seconds "$tree/tests"
	cp scripts/*.sh "$tree/scripts"
	export SCHEDHIST_CACHE=$tree/cache TMPDIR=$tree/tmp SCHEDHIST_JOBS=2
	fake scripts/kernel 'echo 7.3.0-test'
	fake scripts/lint 'echo "ok lint/a"'
	fake tests/bed/run 'echo "ok bed/a"'
	"$@"
}

# Each ends only when the other has begun; they are shown in order nevertheless.
run_side_by_side() {
	local meet='touch $me; for i in {1..300}; do [[ ! -e $other ]] || break; sleep 0.1; done; [[ -e $other ]] || exit 1'
	fake scripts/lint 'me=lint other=bed' "$meet" 'sleep 1; echo "ok lint/a"'
	fake tests/bed/run 'me=bed other=lint' "$meet" 'echo "ok bed/a"; echo "skip bed/b: why"'
	run 0 "$tree/tests/run" lint bed
	said=$(grep -v '^schedhist: ' <<< "$said" | sed 's/, [0-9]* s$//')
	[[ $said == $'=== lint\nok lint/a\n=== lint: 1 passed, 0 failed\n=== bed\nok bed/a\nskip bed/b: why
=== bed: 1 passed, 0 failed\n2 passed, 0 failed, 1 skipped' ]]
}

run_fails() {
	fake scripts/lint 'echo "ok lint/a"; echo "not ok lint/b"; echo "# why"; exit 1'
	fake tests/bed/run 'exit 3'
	fake tests/lockdown/run 'exit 0'
	run 1 "$tree/tests/run" lint bed lockdown
	says $'not ok lint/b\n# why' "not ok bed: it ended with status 3" "not ok lockdown: no test was run" \
		"1 passed, 3 failed"
}

# It says how long it takes, and remembers how long it took.
run_tells() {
	fake scripts/lint 'sleep 2; echo "ok lint/a"'
	run 0 "$tree/tests/run" lint bed
	says "lint bed: about" "running, 1 of 2 jobs done, about"
	grep -qE '^lint [2-9]$' "$tree/cache/state/seconds-7.3"
	[[ $(grep -c . "$tree/cache/state/seconds-7.3") == 2 ]]
}

# What it has begun ends with it, and what was said is shown.
run_ended() {
	local pid
	fake scripts/lint 'echo "ok lint/a"; echo $$ > pid; sleep 1000'
	fake tests/bed/run 'echo "ok bed/a"; sleep 1000'
	"$tree/tests/run" lint bed > "$work/ended" 2>&1 &
	for _ in {1..300}; do
		[[ ! -s $tree/pid ]] || ! grep -qs 'ok bed/a' "$tree"/tmp/*/bed.out || break
		sleep 0.1
	done
	kill -TERM $!
	! wait $! || return
	cat "$work/ended"
	grep -qx 'ok lint/a' "$work/ended"
	grep -qx 'ok bed/a' "$work/ended"
	pid=$(< "$tree/pid")
	# Its parent may not have looked at it yet.
	[[ ! -e /proc/$pid ]] || grep -qs '^State:.Z' "/proc/$pid/status" || [[ ! -e /proc/$pid ]]
}

# The guest's tests are spread over two guests, each once, but for those that an earlier run has done.
run_guests() {
	local names=({a..j})
	fake tests/guest/run "printf '%s\n' ${names[*]}"
	fake scripts/vm 'echo x >> guests; while [[ $1 != tests/guest/run ]]; do shift; done; shift' \
		'printf "ok %s\n" "$@"'
	run 0 "$tree/tests/run" guest
	says "10 passed, 0 failed"
	diff <(printf 'ok %s\n' "${names[@]}") <(grep '^ok ' <<< "$said" | sort)
	[[ $(grep -c x "$tree/guests") == 2 ]]
	printf '%s\n' '=== guest' 'ok c' 'not ok d' > "$work/earlier"
	run 0 "$tree/tests/run" --after "$work/earlier" guest
	diff <(printf 'ok %s\n' "${names[@]}") <(grep '^ok ' <<< "$said" | sort)
	says $'=== guest\nok c\nok '
}

check run/side-by-side tree run_side_by_side
check run/fails tree run_fails
check run/tells tree run_tells
check run/ended tree run_ended
check run/guests tree run_guests
