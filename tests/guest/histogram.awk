# SPDX-License-Identifier: GPL-2.0
#
# Checks that one histogram file of schedhist is as documented.
#
# usage: awk -f histogram.awk FILE

function bad(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; wrong = 1 }

NR == 1 { if ($0 != "# schedhist histogram version 1") bad("first line"); next }
/^(metric|cpu|unit|precision|count|sum|min|max|max_(cpu|time|pid|prio)) -?[0-9a-z_]+$/ { value[$1] = $2; next }
/^max_comm / { value[$1] = $2; next }
/^p[0-9.]+ [0-9]+ ([0-9]+|inf)$/ { quantile[++quantiles] = $2 " " $3; next }
/^bucket [0-9]+ ([0-9]+|inf) [0-9]+$/ {
	if (buckets && $2 + 0 <= upper) bad("not after the bucket before")
	lower = $2 + 0
	upper = $3 == "inf" ? 2 ^ 64 : $3 + 0
	width = upper - lower + 1
	if (width > 1 && width > lower / 2 ^ value["precision"] && $3 != "inf") bad("too wide")
	if (!buckets++) { first_lower = lower; first_upper = upper }
	if (!$4) bad("empty bucket")
	count += $4
	place[$2 " " $3] = buckets
	next
}
{ bad("not understood: " $0) }

END {
	if (value["unit"] != "ns") bad("unit")
	if (count != value["count"]) bad("sum of the buckets: " count)
	if (count) {
		if (value["min"] < first_lower || value["min"] > first_upper) bad("min not in the first bucket")
		if (value["max"] < lower || value["max"] > upper) bad("max not in the last bucket")
		if (value["sum"] < value["min"] || value["sum"] > count * value["max"]) bad("sum")
		if (!("max_comm" in value) || !("max_time" in value)) bad("whose maximum")
		if (quantiles != 5) bad("quantiles")
	}
	for (i = 1; i <= quantiles; i++) {
		if (!(quantile[i] in place)) bad("not a bucket: quantile " quantile[i])
		if (i > 1 && place[quantile[i]] < place[quantile[i - 1]]) bad("quantiles descend")
	}
	exit wrong
}
