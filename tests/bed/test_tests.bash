# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # failed, said
#
# Tests the runners of the tests, and that they refuse bad input: budgets, mutants, machine code,
# drifted events. Sourced by run.

check bench/budget run 0 scripts/bed/root -- tests/bench/test_budget

# After a guest has gone down, another one runs the remaining tests.
guest_rest() {
	local all
	run 0 tests/guest/run --list
	all=$said
	run 0 tests/guest/run --list --except clash no_such_test law
	diff <(printf '%s\n' "$all" | grep -vxE 'clash|law') <(printf '%s\n' "$said") || return
	(($(wc -l <<< "$all") == $(wc -l <<< "$said") + 2))
}

check guest/rest guest_rest

# --after takes over the results of a run that was cut off, except failures.
run_after() {
	run 2 tests/run --after COPYING lockdown
	says "COPYING is of another run: it lacks the line '# run: kernel 7.3, all, commit "
	printf '%s\n' "$(sed -n "s/.* lacks the line '\(.*\)'.*/\1/p" <<< "$said")" \
		'=== lockdown' 'ok lockdown/a' '# of a' 'skip lockdown/b: why' \
		'=== lockdown: 1 passed, 0 failed, 5 s' '=== bed' 'ok bed/other' > "$work/earlier"
	run 0 tests/run --after "$work/earlier" lockdown
	says $'ok lockdown/a\n# of a\nskip lockdown/b: why' "1 passed, 0 failed, 1 skipped"
	[[ $said != *"=== bed"* && $said != *bed/other* ]]
}

check run/after run_after

# Users run the mutants by hand. Here their patches must apply.
# shellcheck disable=SC2016 # for the shell in the root
check mutants/apply run 0 scripts/bed/root -- sh -c 'for patch in tests/mutants/*.patch; do
	echo "$patch"
	patch -p0 --fuzz=0 --force --dry-run --silent < "$patch" || exit
done'

# tests/guest/sites.py must reject bad machine code.
scripts/bed/root -- tests/bed/sites.py "$(scripts/bed/build)" || failed=1

# The tests' own reader of raw must reject damaged snapshots.
tests/bed/raw.py || failed=1

# Tests scripts/tracegen as part of a build.
tests/tracegen/drift || failed=1
