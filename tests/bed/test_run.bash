# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2016,SC2030,SC2031,SC2034,SC2154 # programs; said, work, failed
#
# Tests tests/run with suites that take no time: that it runs suites side by side, what it shows of
# them, and what remains when it is ended. Sourced by run.

# fake FILE LINE...: creates a script in the tree.
fake() {
	mkdir -p "$(dirname "$tree/$1")"
	printf '%s\n' '#!/bin/bash' "cd '$tree'" "${@:2}" > "$tree/$1"
	chmod +x "$tree/$1"
}

# fake_guest LINE...: creates a scripts/bed/vm that notes its arguments, and then runs each LINE with the names of
# the tests as its arguments.
fake_guest() {
	fake scripts/bed/vm 'echo "$*" >> guests; while [[ $1 != tests/guest/run ]]; do shift; done; shift' "$@"
}

# tree FUNCTION: runs FUNCTION with a tree that has the real tests/run, fake suites, and a cache of
# its own.
tree() {
	tree=$work/tree
	rm -rf "$tree"
	mkdir -p "$tree/tests" "$tree/scripts/bed" "$tree/tmp"
	cp tests/run tests/suites.py tests/seconds "$tree/tests"
	cp scripts/*.sh "$tree/scripts"
	cp scripts/bed/lib.sh "$tree/scripts/bed"
	export SCHEDHIST_CACHE=$tree/cache TMPDIR=$tree/tmp SCHEDHIST_JOBS=2
	fake scripts/bed/kernel 'echo 7.3.0-test'
	fake scripts/bed/lint 'echo "ok lint/a"'
	fake tests/bed/run 'echo "ok bed/a"'
	"$@"
}

# Each suite ends only when the other has begun; tests/run must still show them in order.
run_side_by_side() {
	local meet='touch $me; for i in {1..1200}; do [[ ! -e $other ]] || break; sleep 0.1; done; [[ -e $other ]] || exit 1'
	fake scripts/bed/lint 'me=lint other=bed' "$meet" 'sleep 1; echo "ok lint/a"'
	fake tests/bed/run 'me=bed other=lint' "$meet" 'echo "ok bed/a"; echo "skip bed/b: why"'
	run 0 "$tree/tests/run" lint bed
	said=$(grep -v '^schedhist: ' <<< "$said" | sed 's/, [0-9]* s$//')
	[[ $said == $'# run: kernel 7.3, all, commit no commit\n=== lint\nok lint/a\n=== lint: 1 passed, 0 failed\n=== bed\nok bed/a\nskip bed/b: why
=== bed: 1 passed, 0 failed\n2 passed, 0 failed, 1 skipped' ]]
}

run_fails() {
	fake scripts/bed/lint 'echo "ok lint/a"; echo "not ok lint/b"; echo "# why"; exit 1'
	fake tests/bed/run 'exit 3'
	fake tests/lockdown/run 'exit 0'
	run 1 "$tree/tests/run" lint bed lockdown lint
	says $'not ok lint/b\n# why' "not ok bed: exited with status 3" "not ok lockdown: no test was run" \
		$'# failed: lint: lint/b\n#   why\n# failed: bed: bed: exited with status 3
# failed: lockdown: lockdown: no test was run\n1 passed, 3 failed'
	(($(grep -cx '=== lint' <<< "$said") == 1))
	# A suite that cannot even begin ends, too.
	rm "$tree/tests/bed/run"
	run 1 "$tree/tests/run" bed
	says "not ok bed: exited with status 127" "0 passed, 1 failed"
	fake scripts/bed/kernel 'mkdir -p cache/state; echo "its rustc is newer" > cache/state/no-7.3; exit 77'
	run 77 "$tree/tests/run" bed
	says $'skip kernel: its rustc is newer\n0 passed, 0 failed, 1 skipped'
}

# A guest goes down amid its tests: the one that was running has failed, and the rest run in another
# guest; but not if it went down before any test was done.
run_part() {
	local status rest='[[ " $* " == *" a "* ]] || { printf "ok %s\n" "$@"; exit; }'
	fake tests/guest/run 'printf "%s\n" a b c d e f'
	for status in 1 99 125; do
		rm -rf "$tree/cache" # times, by which tests are shared out
		fake_guest "$rest" "printf '%s\n' 'ok a' 'ok x' 'ok y' 'ok z'; exit $status"
		run 1 "$tree/tests/run" guest
		says "not ok c: its guest ended with status $status" "5 passed, 1 failed"
		fake_guest "$rest" "printf '%s\n' 'not ok a' 'ok x'; exit $status"
		run 1 "$tree/tests/run" guest
		says "# the rest in another guest" "5 passed, 1 failed"
		fake_guest "$rest" "exit $status"
		run 1 "$tree/tests/run" guest
		says "tests were not run" " passed, 1 failed"
	done
	# All tests have reported: one failed, and its report in the kernel log is counted already.
	fake_guest 'for name; do [[ $name == a ]] && echo "not ok a" || echo "ok $name"; done' \
		'[[ " $* " != *" a "* ]] || exit 99'
	run 1 "$tree/tests/run" guest
	says "5 passed, 1 failed"
}

# That times cannot be saved must not count as a failed test.
run_unsaved() {
	mkdir "$tree/cache"
	touch "$tree/cache/state"
	run 0 "$tree/tests/run" lint
	says "cannot save how long the tests took"
	[[ ${said##*$'\n'} == "1 passed, 0 failed" ]]
}

# refuses TEXT COMMAND...: requires a usage error with TEXT before any suite begins.
refuses() {
	run 2 "${@:2}"
	says "$1"
	[[ $said != *===* ]]
}

run_usage() {
	local jobs
	for jobs in 0 x 1.5 -1; do
		refuses "SCHEDHIST_JOBS needs a number, not '$jobs'" env SCHEDHIST_JOBS="$jobs" "$tree/tests/run" lint
	done
	refuses "the suite faults needs --kernel with one of our own" "$tree/tests/run" lint faults
	refuses "--quick and --thorough exclude each other" "$tree/tests/run" --quick --thorough lint
	refuses "cannot read $work/none" "$tree/tests/run" --after "$work/none" lint
}

# Only a run with the same options, kernel and commit can be resumed.
run_after_other() {
	run 0 "$tree/tests/run" lint
	printf '%s\n' "$said" > "$work/earlier"
	fake scripts/bed/lint 'exit 1'
	run 0 "$tree/tests/run" --after "$work/earlier" lint
	says $'=== lint\nok lint/a\n=== lint: 1 passed, 0 failed'
	refuses "$work/earlier is of another run" "$tree/tests/run" --after "$work/earlier" --quick lint
	refuses "of another run" "$tree/tests/run" --after "$work/earlier" --thorough lint
	refuses "of another run" "$tree/tests/run" --after "$work/earlier" --kernel 7.2 lint
	git -C "$tree" init -q
	git -C "$tree" add tests scripts
	git -C "$tree" -c user.name=a -c user.email=b commit -q -m c
	# The tree may belong to another user.
	chown -R 65534 "$tree/.git" "$tree"
	refuses "commit $(git -c safe.directory="$tree" -C "$tree" rev-parse --short=12 HEAD)" \
		"$tree/tests/run" --after "$work/earlier" lint
}

# If an earlier run has completed the suite debug, its kernel must not be built.
run_debug_done() {
	fake scripts/bed/kernel '[[ $1 != debug ]] || touch built' 'echo 7.3.0-test'
	run 0 "$tree/tests/run" lint
	printf '%s\n' "$said" '=== debug' 'ok debug/law' '=== debug: 1 passed, 0 failed, 5 s' > "$work/earlier"
	run 0 "$tree/tests/run" --after "$work/earlier" debug lint
	says "2 passed, 0 failed"
	[[ ! -e $tree/built ]]
}

# The progress must say that the kernel debug is being built.
run_debug_built() {
	fake scripts/bed/kernel '[[ $1 != debug ]] || { until [[ -e over ]]; do sleep 0.1; done; sleep 10; }' 'echo 7.3.0-test'
	fake_guest 'printf "ok %s\n" "$@"'
	fake tests/bed/run 'sleep 3; echo "ok bed/a"; touch over'
	run 0 "$tree/tests/run" debug lint bed
	says "bed running; the kernel debug is being built; 1 of 4 jobs done, about"
	says ": the kernel debug is being built; 2 of 4 jobs done, about"
}

# tests/run estimates the time that it takes, and saves the time that it took.
run_tells() {
	fake scripts/bed/lint 'sleep 2; echo "ok lint/a"'
	run 0 "$tree/tests/run" lint bed
	says "lint bed: about" "running, 1 of 2 jobs done, about"
	grep -qE '^lint [2-9]$' "$tree/cache/state/seconds-7.3"
	[[ $(grep -c . "$tree/cache/state/seconds-7.3") == 2 ]]
}

# end_begun SUITE...: starts tests/run, ends it once the file `begun` exists, and sets $said to its output.
end_begun() {
	local run
	"$tree/tests/run" "$@" > "$work/ended" 2>&1 &
	run=$!
	for _ in {1..1200}; do
		[[ ! -e $tree/begun ]] || break
		sleep 0.1
	done
	kill -TERM "$run"
	! wait "$run" || return
	said=$(< "$work/ended")
	printf '%s\n' "$said"
}

# Requires that the process in the file `pid` has ended. It may be a zombie that its parent has not reaped yet.
has_ended() {
	local pid
	pid=$(< "$tree/pid")
	[[ ! -e /proc/$pid ]] || grep -qs '^State:.Z' "/proc/$pid/status" || [[ ! -e /proc/$pid ]]
}

# Jobs must end with tests/run, and it must show their output.
run_ended() {
	fake scripts/bed/lint 'echo "ok lint/a"; echo $$ > pid; sleep 1000'
	fake tests/bed/run 'until [[ -s pid ]]; do sleep 0.1; done; echo "ok bed/a"; touch begun; sleep 1000'
	end_begun lint bed
	grep -qx 'ok lint/a' <<< "$said"
	grep -qx 'ok bed/a' <<< "$said"
	has_ended
}

# The first suite prints nothing, and the second one is done: tests/run must show the second one, so
# that --after does not repeat it.
run_ended_silent() {
	fake scripts/bed/lint 'sleep 1000'
	fake tests/bed/run 'echo "ok bed/a"'
	fake tests/lockdown/run 'echo "ok lockdown/a"; touch begun; sleep 1000'
	end_begun lint bed lockdown
	says $'=== bed\nok bed/a\n=== bed: 1 passed, 0 failed, '
	says $'\n=== lockdown\nok lockdown/a'
	[[ $said != *"=== lint:"* && $said != *"=== lockdown:"* ]]
	fake scripts/bed/lint 'echo "ok lint/a"'
	fake tests/bed/run 'exit 1'
	fake tests/lockdown/run 'echo "ok lockdown/a"'
	run 0 "$tree/tests/run" --after "$work/ended" lint bed lockdown
	says "3 passed, 0 failed"
}

# Ending tests/run must end the download of a kernel at once.
run_ended_kernel() {
	fake scripts/bed/kernel 'echo $$ > pid; touch begun; exec sleep 1000'
	end_begun lint
	has_ended
}

# The guest's tests are split into two guests, and each test runs once, except tests that an earlier
# run has done.
run_guests() {
	local names=({a..j})
	fake tests/guest/run "printf '%s\n' ${names[*]}"
	fake_guest 'printf "ok %s\n" "$@"'
	run 0 "$tree/tests/run" guest
	says "10 passed, 0 failed"
	diff <(printf 'ok %s\n' "${names[@]}") <(grep '^ok ' <<< "$said" | sort)
	[[ $(wc -l < "$tree/guests") == 2 ]]
	printf '%s\n' "${said%%$'\n'*}" '=== guest' 'ok c' 'not ok d' > "$work/earlier"
	run 0 "$tree/tests/run" --after "$work/earlier" guest
	diff <(printf 'ok %s\n' "${names[@]}") <(grep '^ok ' <<< "$said" | sort)
	said=$(grep -v '^schedhist: ' <<< "$said")
	says $'=== guest\nok c\nok '
}

# A test that needs a parameter of the kernel has a guest of its own.
run_parameters() {
	fake tests/guest/run 'printf "%s\n" a b long_waits_isolated'
	fake_guest 'printf "ok %s\n" "$@"'
	run 0 "$tree/tests/run" guest
	says "3 passed, 0 failed"
	[[ $(grep -o 'isolcpus.*' "$tree/guests") == "isolcpus=1 -- tests/guest/run long_waits_isolated" ]]
}

# While no module can be built for unstable's kernel, its tests are skipped, with the reason. If it
# cannot be installed, that is a failure, and those of other kernels are run.
run_matrix() {
	cp tests/matrix tests/table.py "$tree/tests"
	fake tests/guest/run 'printf "%s\n" a b'
	fake tests/run 'echo "ok a"; echo "ok b"; echo "2 passed, 0 failed"'
	fake scripts/bed/kernel '[[ $1 == sid ]] || { echo 7.3.0-test; exit; }' 'mkdir -p cache/state' \
		'echo "its rustc is newer" > cache/state/no-sid; exit 77'
	run 0 "$tree/tests/matrix" --quick 7.3 sid
	says "(1) its rustc is newer" "2 passed, 0 failed, 2 skipped"
	fake scripts/bed/kernel '[[ $1 == sid ]] || { echo 7.3.0-test; exit; }' 'exit 1'
	run 1 "$tree/tests/matrix" --quick 7.3 sid
	says $'\nkernel ' "2 passed, 3 failed, 0 skipped"
	fake scripts/bed/kernel 'exit 1'
	run 1 "$tree/tests/matrix" --quick 7.3
	[[ $said != *"running on"* ]]
}

# They mostly sleep: four at a time.
each_in_a_tree() {
	local name running=0
	for name; do
		((running++ < 4)) || wait -n || :
		(
			work+=/$name
			mkdir "$work"
			check "run/$name" tree "run_${name//-/_}" > "$work/result"
		) &
	done
	wait
	for name; do cat "$work/$name/result"; done
	! grep -q '^not ok' "$work"/*/result || failed=1
}

each_in_a_tree side-by-side fails tells part unsaved usage after-other debug-done debug-built ended \
	ended-silent ended-kernel guests parameters matrix
