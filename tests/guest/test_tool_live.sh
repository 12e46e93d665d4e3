#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2119,SC2154 # optional arguments; variables of lib.sh
#
# The live view and the exporter, while the module is loaded, unloaded and loaded anew.
# scripts/bed/vm --tool builds the command.

# shellcheck source=tests/guest/tool.bash
. ./tool.bash

# --- top ---

terminal() { tmux -u -f /dev/null -S "$work/tmux" "$@"; }

# on_screen PATTERN: waits until the terminal shows it.
on_screen() {
	for _ in {1..100}; do
		terminal capture-pane -p > screen
		! grep -qE -- "$1" screen || return 0
		sleep 0.2
	done
	fail "not on the screen: $1; but: $(< screen)"
}

# switches_shown: prints the rate that the title has.
switches_shown() { sed -nE '1s/.* ([0-9]+)(k?) switches\/s.*/\1\2/p' screen | sed 's/k$/000/'; }

# The live view outlives the module and goes on with the next load of it, and the terminal is as
# before, whatever ends it. (That it is so after a panic, too, needs a build with debug assertions:
# see tools/schedhist/command/tests/top.rs.)
test_tool_top() {
	local how rate
	command -v tmux > /dev/null || skip "tmux is not installed"
	begin_tool
	expedite_rcu
	cat > session <<-END
		for how in q INT TERM; do
			stty -a > before.\$how
			"$SCHEDHIST_TOOL" top -d 0.5
			echo "\$?" > status.\$how
			stty -a > after.\$how
			read -r go
		done
	END
	export LC_ALL=C.UTF-8 TERM=xterm-256color
	trap 'terminal kill-server 2> /dev/null || :' EXIT
	terminal new-session -d -x 80 -y 24 "sh $work/session"
	on_screen "CPU 1"
	on_screen "  last [0-9]"
	unload_under_readers
	on_screen '^schedhist  \[the module is not loaded: modprobe schedhist]'
	# What was seen last stays.
	grep -q "^>runq " screen || fail "nothing is left on the screen: $(< screen)"
	load
	on_screen '^schedhist  [0-9:]{8}  last'
	rate=$(switches_shown)
	[[ -n $rate ]] || fail "no rate: $(< screen)"
	# The counts of the first load are in no difference.
	within "switches a second" 0 "$rate" 1000000
	for how in q INT TERM; do
		on_screen "q quit"
		case $how in
		q) terminal send-keys q ;;
		*) kill "-$how" "$(pidof -s "$SCHEDHIST_TOOL")" ;;
		esac
		for ((i = 0; i < 100; i++)); do
			[[ ! -s after.$how ]] || break
			sleep 0.1
		done
		same "status after $how" "$(< "status.$how")" 0
		same "terminal after $how" "$(< "after.$how")" "$(< "before.$how")"
		same "alternate screen, cursor and wrapping after $how" \
			"$(terminal display -p '#{alternate_on}#{cursor_flag}#{wrap_flag}')" 011
		terminal send-keys Enter
	done
}

# --- export ---

# Prometheus scrapes the module of this guest: `up` throughout, the tool's quantiles, and a load of
# the module anew is a counter reset and no spike. It takes half a minute under emulation, most of
# it for Prometheus to start.
allow_seconds test_tool_prometheus 300
test_tool_prometheus() {
	local prometheus exporter
	[[ -n ${SCHEDHIST_THOROUGH-} ]] || skip "it takes long: needs --thorough"
	command -v prometheus > /dev/null || skip "prometheus is not installed"
	begin_tool metrics=all group_by=cgroup
	ip link set lo up
	cat > prometheus.yml <<-END
		global:
		  scrape_interval: 1s
		rule_files: [$here/../../tools/prometheus/*.rules.yml]
		scrape_configs:
		  - job_name: schedhist
		    scrape_classic_histograms: true
		    static_configs:
		      - targets: ['127.0.0.1:9763']
	END
	"$SCHEDHIST_TOOL" export 2> exporter.log &
	exporter=$!
	prometheus --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address=127.0.0.1:9764 \
		--enable-feature=native-histograms > prometheus.log 2>&1 &
	prometheus=$!
	background "$exporter" "$prometheus"
	messages 20
	measure 0
	python3 -S "$here/prometheus.py" quantiles "$SCHEDHIST_TOOL"
	unload_under_readers
	python3 -S "$here/prometheus.py" gone
	load metrics=all
	messages 5
	measure 0
	python3 -S "$here/prometheus.py" anew "$SCHEDHIST_TOOL"
	! grep -E 'level=(error|warn)' prometheus.log || fail "Prometheus complains"
	kill -TERM "$exporter" "$prometheus"
	status_of "$prometheus" 0
	rm -rf data
}
