# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # said, work
#
# Tests help, wrong usage, wrong names, and scripts that need root. Sourced by run.
#
# If a script must not start anything, its test sets the cache to a folder that does not exist, and
# requires that it does not exist afterwards either.

# A copy of the tree, since another user may not be able to read the tree.
cli_tree=$work/tree
cli_copy() {
	[[ ! -e $cli_tree ]] || return 0
	mkdir -p "$cli_tree"
	chmod 755 "$work" "$cli_tree"
	tar --create --exclude=./.git --exclude=./build --exclude=target . | tar --extract --no-same-owner -C "$cli_tree"
	chmod -R a+rX "$cli_tree"
}

# quickly STATUS COMMAND...: like run, but in the copy. COMMAND must end within a minute and start nothing.
quickly() {
	local wanted=$1
	shift
	cd "$cli_tree" || exit
	rm -rf "$work/none"
	# The Makefile has a variable SECONDS, too.
	run "$wanted" timeout --kill-after 1 60 env -u SECONDS SCHEDHIST_CACHE="$work/none" "$@" < /dev/null
	[[ ! -e $work/none ]] || { echo "something was started: $*"; exit 1; }
}

# by_user STATUS COMMAND...: like quickly, but as an ordinary user.
by_user() {
	quickly "$1" setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/nonexistent "${@:2}"
}

# one_message TEXT...: requires that the output is one line, apart from make's own, with each TEXT.
one_message() {
	says "$@"
	(($(grep -vc '^make: ' <<< "$said") == 1)) || { echo "it said more"; exit 1; }
}

# Prints the scripts that a user may run.
scripts_found() {
	local file
	find scripts tests -type f -perm /111 -not -path '*/target/*' | sort | while IFS= read -r file; do
		head -n 1 "$file" | grep -q '^#!' || continue
		! head -n 12 "$file" | tr -d '#\n' | grep -qiE 'not to +be run by hand' || continue
		echo "$file"
	done
}

cli_help() {
	quickly 0 "$1" -h
	says "sage: "
	by_user 0 "$1" --help
	says "sage: "
}

# argparse complains about missing arguments first, and then shows the usage.
cli_option() {
	quickly 2 "$1" --no-such-option
	[[ $said == *"--no-such-option"*"$1 --help"* || $said == *"--no-such-option"*"sage: "* ||
		$said == "usage: ${1##*/} "* ]] || { echo "it names neither the option nor its help"; exit 1; }
}

# Runs the scripts that are not to be run by hand: with --help they must change nothing.
cli_harmless() {
	local file before after
	before=$(cat /proc/mounts; ls -la /mnt)
	for file in $(find scripts tests -type f -perm /111 -not -path '*/target/*' | grep -vxF -f <(scripts_found) | sort); do
		head -n 1 "$file" | grep -q '^#!' || continue
		echo "$file"
		(cd "$cli_tree" && timeout --kill-after 1 60 env SCHEDHIST_CACHE="$work/none" "$file" --help < /dev/null) || true
	done
	after=$(cat /proc/mounts; ls -la /mnt)
	diff <(echo "$before") <(echo "$after")
	[[ ! -e $work/none ]]
}

# cli_root ADVICE COMMAND...: requires one message that advises ADVICE, with or without a terminal.
cli_root() {
	local status=1
	[[ $2 != make ]] || status=2
	by_user "$status" "${@:2}"
	one_message "must run as root: sudo $1"
}

# cli_name TEXT COMMAND...: requires one message with TEXT, even for root, who could start guests.
cli_name() {
	quickly 2 "${@:2}"
	one_message "$1"
}

check_cli() {
	local file name
	cli_copy
	while IFS= read -r file; do
		check "cli/help/$file" cli_help "$file"
		check "cli/option/$file" cli_option "$file"
	done < <(scripts_found)
	check cli/harmless cli_harmless

	check cli/root/run cli_root "make run" make run
	check cli/root/run-kernel cli_root "make run KERNEL=7.2" make run KERNEL=7.2
	for name in test check test-matrix test-report test-packages deb bench lint fmt; do
		grep -q "^$name:" Makefile || continue
		check "cli/root/$name" cli_root "make $name" make "$name"
	done
	for file in scripts/deb scripts/bed/{vm,root,kernel,lint} tests/{run,matrix} tests/{bed,faults,lockdown,mutants,packages}/run \
		tests/bench/{all,host,path,peers,read,scale} tests/tracegen/drift; do
		case $file in
		scripts/bed/vm) check "cli/root/$file" cli_root "$file" "$file" -- true ;;
		*) check "cli/root/$file" cli_root "$file" "$file" ;;
		esac
	done
	check cli/root/debug-kernel cli_root scripts/bed/debug-kernel scripts/bed/debug-kernel debug

	for name in run test bench; do
		check "cli/name/$name" cli_name "no kernel is called 'nope'" make "$name" KERNEL=nope
	done
	check cli/name/6.18 cli_name "kernel 6.18 is not supported, schedhist needs 7.3 or 7.2 or 6.12" make run KERNEL=6.18
	check cli/name/arm64 cli_name "kernel 6.18-arm64 is not supported" scripts/bed/kernel 6.18-arm64
	check cli/name/matrix cli_name "no kernel is called 'nope'" tests/matrix nope
	check cli/name/matrix-make cli_name "no kernel is called 'nope'" make test-matrix KERNELS=nope
	check cli/name/suite cli_name "there is no suite" tests/run nope
	check cli/name/part cli_name "there is no part 'nope'" tests/bench/all nope
	check cli/name/fault cli_name "'7.3' is not a kernel of our own" tests/faults/run 7.3
	check cli/name/mutant cli_name "there is no mutant 'nope'" tests/mutants/run nope
	check cli/name/topic cli_name "there is no topic 'nope'" tests/bed/run nope
	check cli/name/kernel cli_name "no kernel is called ''" scripts/bed/kernel ''
	check cli/name/two-kernels cli_name "no kernel is called '7.3 7.2'" scripts/bed/kernel '7.3 7.2'
	check cli/name/test-in-guest cli_name "there is no test 'nope'" tests/guest/run law nope
	check cli/value/vm cli_name "--kernel needs a value" scripts/bed/vm --kernel
	check cli/value/cpus cli_name "--cpus needs a number, not 'many'" make run CPUS=many
	check cli/value/seconds cli_name "SECONDS must be a number" make run SECONDS=long
	check cli/value/command cli_name "no command is given" scripts/bed/vm --
	check cli/value/bare-command cli_name "unexpected argument 'true'" scripts/bed/vm true
}

check_cli
