#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The command's documentation: each command in the README's recipes and in docs/tool.md works as it is
# written there. And the tools of BCC itself, which take minutes to start on an emulated machine.

# shellcheck source=tests/guest/tool.bash
. ./tool.bash
# shellcheck source=tests/guest/oracle.bash
. ./oracle.bash

# what_docs_name: makes the files and tasks that the documents speak of.
what_docs_name() {
	local file
	mkdir bin recordings
	# Ends what goes on for longer, as ^C does.
	cat > bin/schedhist <<- 'END'
		#!/bin/bash
		limit=60
		[[ " hist runqlat groups record export " != *" $1 "* ]] || limit=3
		timeout --foreground --preserve-status -s INT $limit "$SCHEDHIST_TOOL" "$@"
		rc=$?
		echo "$rc schedhist $*" >> "$SCHEDHIST_SAID"
		exit $rc
	END
	printf '#!/bin/sh\nexec /bin/sleep 2\n' > bin/sleep
	printf '#!/bin/sh\nexec %s/delay 600 100\n' "$work" > before
	printf '#!/bin/sh\nexec %s/delay 600 200\n' "$work" > after
	printf '#!/bin/bash\nwhile :; do for ((i = 0; i < 200; i++)); do :; done; read -rt 0.01 < %s/never; done\n' \
		"$PWD" > worker
	chmod +x bin/* before after worker
	mkfifo never
	printf 'all: a b c\na b c:\n\t@true | cat\n' > Makefile
	tool record -I 100 -d 1 -o schedhist.data 2> /dev/null
	for file in web1 web2 before after recordings/1 recordings/2; do
		cp schedhist.data "$file.data"
	done
	ip link set lo up
}

allow_seconds test_tool_docs 900
test_tool_docs() {
	local number block pid rc
	begin_tool
	[[ -n $SCHEDHIST_THOROUGH ]] || skip "it takes long: tests/guest/run --thorough"
	cgroups_on
	helper delay
	helper hog
	number=$(python3 -SE "$here/doc_commands.py" "$work" "$here"/../../{README.md,docs/tool.md})
	((number > 10)) || fail "there are $number blocks of commands"
	mkdir scene
	cd scene || exit
	what_docs_name
	exec 7<> never
	./worker &
	pid=$!
	background "$pid"
	export PATH=$PWD/bin:$PATH SCHEDHIST_TOOL SCHEDHIST_SAID=$work/statuses
	for block in "$work"/[0-9][0-9].sh; do
		note "--- $(tr '\n' ';' < "$block")"
		: > "$work/statuses"
		# For the recipe that waits for an outlier on CPU 1.
		! grep -q 'watch' "$block" || (/bin/sleep 2; exec "$work/hog" wakeup 1 250 > /dev/null) &
		rc=0
		bash "$block" > "$work/said" 2>&1 || rc=$?
		sed 's/^/#    /' "$work/said" | cut -c 1-150 | tail -n 12
		note "status $rc; $(tr '\n' ';' < "$work/statuses")"
		# What the documents say: 3 for a threshold that was exceeded, 1 for a p99 that is above; and
		# 1 for a time that the recording does not have here.
		! grep -vE '^(0|3 schedhist watch .*|1 schedhist (diff .*--fail-above|report --time 600,900) .*)( |$)' \
			"$work/statuses" ||
			fail "$(< "$block") ended with $(< "$work/statuses"): $(< "$work/said")"
		grouped_by none
	done
	kill "$pid"
}

# BCC's own tools count the same, and one program parses both tables.
allow_seconds test_tool_peers_bcc 1800
test_tool_peers_bcc() {
	about_numbers
	[[ -n $SCHEDHIST_THOROUGH ]] || skip "BCC compiles its programs for minutes: tests/guest/run --thorough"
	[[ -x /usr/sbin/runqlat-bpfcc ]] || skip "bpfcc-tools is not installed"
	begin_tool
	check_tool peers_bcc "$SCHEDHIST_TOOL"
}
