#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0
#
# Turns lines "PART <tab> ROW <tab> COLUMN <tab> VALUE <tab> UNIT" into a table for each part, and into
# a list of objects in the file that json names.
#
# usage: awk -v json=FILE -f tests/bench/scale-table.awk

BEGIN {
	FS = "\t"
	printf "[" > json
}

NF == 5 {
	printf "%s\n{\"part\": \"%s\", \"row\": \"%s\", \"column\": \"%s\", \"value\": %s, \"unit\": \"%s\"}",
		(count++ ? "," : ""), $1, $2, $3, $4, $5 > json
	if (!($1 in parts)) {
		parts[$1] = ++part_count
		part[part_count] = $1
	}
	if (!(($1, $2) in rows)) {
		rows[$1, $2] = ++row_count[$1]
		row[$1, row_count[$1]] = $2
	}
	if (!(($1, $3) in columns)) {
		columns[$1, $3] = ++column_count[$1]
		column[$1, column_count[$1]] = $3 ", " $5
	}
	value[$1, rows[$1, $2], columns[$1, $3]] = $4
	if (length($2) > width)
		width = length($2)
}

END {
	printf "\n]\n" > json
	for (p = 1; p <= part_count; p++) {
		name = part[p]
		# One letter for each column, with what it means above: names are long.
		printf "\n# %s\n", name
		for (c = 1; c <= column_count[name]; c++)
			printf "#   %c: %s\n", 64 + c, column[name, c]
		printf "%-*s", width, ""
		for (c = 1; c <= column_count[name]; c++)
			printf " %12c", 64 + c
		printf "\n"
		for (r = 1; r <= row_count[name]; r++) {
			printf "%-*s", width, row[name, r]
			for (c = 1; c <= column_count[name]; c++)
				printf " %12s", (name, r, c) in value ? value[name, r, c] : ""
			printf "\n"
		}
	}
}
