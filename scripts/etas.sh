#!/bin/sh
# The figures of docs/evaluation/uncertain-etas.md. Needs jq.
#
#   scripts/etas.sh run LAB TRACES OUT   simulate into the folder OUT, about ten minutes of a core
#   scripts/etas.sh tables OUT           print the tables as Markdown
#
# LAB is the program elastalloc-lab, TRACES a folder with the files NAME_50h.csv of itp_cluster04,
# helios_venus_may2020, itp_cluster02 and itp_cluster08 (docs/reference/traces.md describes how to create them).
# Runs whose results are in OUT are skipped.
set -eu

# simulate SETTING POLICIES NAME SEED FLAGS... runs a workload: NAME is that of a trace, or baseline.
simulate() {
	into=$out/$1/$3-$4-$2 policies=$2 name=$3 seed=$4
	shift 4
	[ ! -d "$into" ] || return 0
	mkdir -p "$(dirname "$into")"
	jobs="--trace $traces/${name}_50h.csv --min-duration 5m"
	[ "$name" != baseline ] || jobs="--synthetic baseline"
	# shellcheck disable=SC2086 # Several words.
	"$lab" simulate $jobs --policy "$policies" --nodes 70,150 --seed "$seed" --workers 1 --out "$into" "$@" >/dev/null
}

# random_errors NAME SEED runs the simulations with random errors: factors of 1.6, 2 and 4.
random_errors() {
	simulate sigma-0.470 total-time "$@" --eta-sigma 0.470
	for sigma in 0.693 1.386; do
		simulate "sigma-$sigma" optimal "$@" --eta-sigma "$sigma"
		simulate "sigma-$sigma" total-time "$@" --eta-sigma "$sigma"
	done
}

# fixed NAME SEED runs the simulations without random errors.
fixed() {
	simulate true max-min,total-time,optimal "$@"
	simulate unknown optimal "$@" --eta unknown
	for soft in 0.693 1.386; do
		simulate "soft-$soft" total-time "$@" --total-time "eta_error=$soft"
	done
	for soft in 0.000001 0.7 1.0 1.4 2.0 3.0 5.0; do
		simulate "unknown-$soft" total-time "$@" --eta unknown --eta-sigma "$soft"
	done
}

run() {
	for trace in itp_cluster04 helios_venus_may2020 itp_cluster02 itp_cluster08; do
		fixed "$trace" 1
		for seed in $(seq 1 10); do
			random_errors "$trace" "$seed"
		done
	done
	for seed in $(seq 1 12); do
		fixed baseline "$seed"
		random_errors baseline "$seed"
	done
}

# Changes of the mean job completion time in %, over the cases of some workloads: pairs of workload and
# pool, on a trace the mean over the seeds.
tables() {
	for workloads in 'itp|venus' synthetic; do
		printf '\n%s\n\n' "$workloads"
		find "$1" -name summary.json -exec jq -c '.runs[] | . +
			{told: (input_filename | split("/")[-3]), draw: .seed} | {told, policy, trace, draw, nodes, mean_total_s, resizes, jobs}' {} + |
			jq -rs --arg workloads "$workloads" '
			def mean: add / length;
			def sd: mean as $m | (map(. - $m | . * .) | add) / ([length - 1, 1] | max) | sqrt;
			def percent: . * 1000 | round / 10 | if . > 0 then "+\(.)" elif . < 0 then "−\(-.)" else "0" end;
			[.[] | select(.trace | test($workloads)) |
				.case = (if .trace | startswith("synthetic") then "\(.trace) \(.draw)" else .trace end) + " \(.nodes)"] as $runs |
			def by(told; policy): [$runs[] | select(.told == told and .policy == policy)] | INDEX(.case);
			by("true"; "max-min") as $shares |
			"| told | policy | against equal shares (worst) | against true (worst) | sd over draws | changes per job |",
			"|---|---|--:|--:|--:|--:|",
			($runs | group_by([.told, .policy])[] | .[0] as $of | by("true"; $of.policy) as $true |
				group_by(.case) | map(.[0].case as $case |
					{shares: (map(.mean_total_s / $shares[$case].mean_total_s - 1) | mean),
					true: (map(.mean_total_s / $true[$case].mean_total_s - 1) | mean),
					spread: (map(.mean_total_s / $true[$case].mean_total_s) | sd),
					changes: (map(.resizes / .jobs) | mean)}) |
				"| \($of.told) | \($of.policy) | \(map(.shares) | mean | percent) (\(map(.shares) | max | percent)) | \(
					map(.true) | mean | percent) (\(map(.true) | max | percent)) | \(
					if map(.spread) | max > 0 then map(.spread) | mean * 1000 | round / 10 else "" end) | \(
					map(.changes) | mean * 100 | round / 100) |")'
	done
}

case ${1-} in
run)
	lab=$2 traces=$3 out=$4
	run
	;;
tables)
	tables "$2"
	;;
*)
	sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
