#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0
#
# Prints how flat the cost is: by how many percent the most expensive row of a kind exceeds the
# first row of all. Copies its input, and adds lines of the same form.
#
# usage: awk -f tests/bench/scale-flat.awk FIRST-ROW

BEGIN {
	FS = OFS = "\t"
	first = ARGV[1]
	ARGC = 1
}

{ print }

$2 !~ /groups/ && ($3 == "default" || $3 == "all") {
	kind = $2 ~ /^precision/ ? "precision" : $2 ~ /task/ ? "tasks" : "CPUs"
	if ($2 == first)
		base[$3] = $4
	if (!((kind, $3) in most) || $4 > most[kind, $3])
		most[kind, $3] = $4
}

END {
	for (key in most) {
		split(key, part, SUBSEP)
		if (!base[part[2]]) {
			print "no row " first > "/dev/stderr"
			exit 1
		}
		print "scale", part[1] ": the most above " first, part[2] ", percent",
			sprintf("%.1f", 100 * (most[key] / base[part[2]] - 1)), "percent"
	}
}
