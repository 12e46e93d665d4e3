# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # status; work and quick, of run
#
# Runs jobs side by side, shows their output one after the other, and estimates how long all of them
# will take. Sourced by run.
#
# A job is a name; the function `job NAME` runs it. $work/NAME.out has its output. Estimates and
# progress go to stderr.

# How many jobs run at once. Most of them are guests, which keep a CPU busy. With more guests than
# CPUs, the CPU of a guest often spins on a lock whose holder the host does not run. The few jobs of a
# quick run all begin at once.
slots=$(nproc)
((slots >= 2)) || slots=2
((slots <= 5)) || slots=5
[[ -z $quick ]] || slots=5
slots=${SCHEDHIST_JOBS:-$slots}

# For a job whose tests are known by name: the number of tests to run, and the number of results
# that it takes over from an earlier run.
declare -A number=() taken=()
declare -A pids=() began=() ended=() status=() expected=()
running=() first=''

# start_job NAME: starts a job in a process group of its own, so that all of its processes can be
# ended.
start_job() {
	local name=$1
	began[$name]=$SECONDS
	: "${first:=$SECONDS}"
	: > "$work/$name.out"
	set -m
	(
		rc=0
		job "$name" || rc=$?
		echo "$rc" > "$work/$name.rc"
	) > "$work/$name.out" 2>&1 < /dev/null &
	set +m
	pids[$name]=$!
	running+=("$name")
}

# reap_jobs: sets ended and status of each job that has ended. Returns whether there was one.
reap_jobs() {
	local name still=() rc found=1
	for name in "${running[@]}"; do
		if kill -0 "${pids[$name]}" 2> /dev/null; then
			still+=("$name")
			continue
		fi
		rc=137
		[[ ! -s $work/$name.rc ]] || rc=$(< "$work/$name.rc")
		ended[$name]=$SECONDS status[$name]=$rc found=0
	done
	running=("${still[@]}")
	return "$found"
}

# end_jobs: ends all running jobs.
end_jobs() {
	local name
	for name in "${running[@]}"; do
		kill -TERM -- "-${pids[$name]}" || :
		wait "${pids[$name]}" || :
	done 2> /dev/null
}

# minutes SECONDS: prints a time in minutes, with the unit.
minutes() {
	if (($1 < 60)); then
		echo "1 minute"
	else
		echo "$((($1 + 30) / 60)) minutes" | sed 's/^1 minutes/1 minute/'
	fi
}

# reported NAME: prints how many tests the job has reported.
reported() { grep -cE '^(ok|not ok|skip) ' "$work/$1.out" || :; }

# done_by NAME: prints how many tests the job has run.
done_by() {
	local count
	count=$(($(reported "$1") - ${taken[$1]:-0}))
	echo $((count > 0 ? count : 0))
}

# seconds_of_work NAME: prints how many more seconds a job is expected to take.
seconds_of_work() {
	local name=$1 all=${expected[$1]} rest
	if [[ -n ${ended[$name]-} ]]; then
		rest=0
	elif [[ -z ${began[$name]-} ]]; then
		rest=$all
	elif ((${number[$name]:-0} > 0)); then
		rest=$((all - all * $(done_by "$name") / number[$name]))
	else
		rest=$((all - SECONDS + began[$name]))
		# The job takes longer than expected: assume that a tenth of its work is left.
		((rest >= all / 10)) || rest=$((all / 10))
	fi
	echo "$rest"
}

# time_left NAME...: prints how many more seconds all jobs are expected to take. Uses the expected
# times at first, and later the speed so far.
time_left() {
	local name rest all=0 left=0 longest=0
	for name; do
		rest=$(seconds_of_work "$name")
		((all += expected[$name], left += rest, 1))
		((rest <= longest)) || longest=$rest
	done
	if (((all - left) * 4 > all)); then
		left=$(((SECONDS - first) * left / (all - left)))
	else
		left=$((left / slots))
	fi
	((left >= longest)) || left=$longest
	echo "$left"
}

# tell_progress NAME...: prints one line about all jobs; $building is set while a kernel is being
# built.
tell_progress() {
	local name left text=''
	left=$(time_left "$@")
	for name in "${running[@]}"; do
		text+="${text:+, }$name"
		((${number[$name]:-0} == 0)) || text+=" $(done_by "$name") of ${number[$name]} tests"
	done
	if [[ -z ${building-} ]]; then
		text="${text:-nothing} running,"
	else
		text="${text:+$text running; }the kernel debug is being built;"
	fi
	say "$((SECONDS / 60)) of $(minutes $((SECONDS + left))): $text ${#ended[@]} of $# jobs done," \
		"about $(minutes "$left") left"
}
