# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # failed, said
#
# The tests' own runners, and what must be refused: budgets, mutants, machine code, drifted events. Sourced by run.

check bench/budget run 0 scripts/root -- tests/bench/test_budget

# When a guest fell, another does the rest.
guest_rest() {
	local all
	run 0 tests/guest/run --list
	all=$said
	run 0 tests/guest/run --list --except clash no_such_test law
	diff <(printf '%s\n' "$all" | grep -vxE 'clash|law') <(printf '%s\n' "$said") || return
	(($(wc -l <<< "$all") == $(wc -l <<< "$said") + 2))
}

check guest/rest guest_rest

# What a run that was cut off has done is taken over, but for what failed.
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

# The mutants are run by hand, but have to fit the module.
tests/mutants/run --build || failed=1

# tests/guest/sites.py, with machine code that it is to refuse.
scripts/root -- tests/bed/sites.py "$(scripts/build)" || failed=1

# scripts/tracegen, as part of a build.
tests/tracegen/drift || failed=1
