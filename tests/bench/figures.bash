# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Creates build/bench, the directory of the figures, and gives it to the tree's owner at the end: a
# user could not remove files that root leaves in the tree. Sourced at the top of the tree.

# Parts that run at once may rename files during this; the caller that started them repeats it.
give_figures() {
	chown -fh --reference=. build || :
	chown -fhR --reference=. build/bench || :
}

# show_figures PART TITLE: makes build/bench/PART.json of lines of figures, and prints it as a table.
show_figures() {
	scripts/bed/root -- python3 tests/bench/figures.py json "$1" > "build/bench/$1.json"
	scripts/bed/root -- python3 tests/bench/figures.py table "$2" "build/bench/$1.json"
}

mkdir -p build/bench
trap give_figures EXIT
