#!/bin/sh
# The tables of docs/evaluation/clusters.md. Needs jq.
#
#   scripts/clusters.sh run LAB SIA TRACES OUT   simulate into the new folder OUT, some minutes of one core
#   scripts/clusters.sh tables OUT               print the tables as Markdown
#
# LAB is the program elastalloc-lab, SIA a folder with speeds.csv, philly-*.csv and saturn-*.csv, the workloads of Sia
# as traces, and TRACES a folder with helios_venus_may2020_50h.csv.
set -eu

# simulate NAME TYPES UNITS DAMAGED FLAGS... simulates a workload on machines, and partitions of the GPUs that jobs can
# use there. TYPES is a list of ID=GPUS:SPEED.
simulate() {
	name=$1 types=$2 units=$3 damaged=$4
	shift 4
	"$lab" simulate "$@" --gpus-per-node 1 --unit gpu --workers 1 --node-types "$types" --machine-units "$units" --damaged "$damaged" \
		--placement move --size-limits --policy type-partitions,total-time-open,total-time --out "$out/$name/machines" >/dev/null
	usable=$(jq -r --arg types "$types" '
		($types | split(",") | map(capture("(?<id>.*)=.*:(?<speed>.*)")) | map({(.id): .speed}) | add) as $speed |
		.runs[0].node_types | map("\(.id)=\(.nodes):\($speed[.id])") | join(",")' "$out/$name/machines/summary.json")
	"$lab" simulate "$@" --gpus-per-node 1 --unit gpu --workers 1 --node-types "$usable" \
		--policy team-type-partitions,static-partitions,type-partitions,total-time-open,total-time --out "$out/$name/divisible" >/dev/null
}

run() {
	for file in "$sia"/philly-*.csv "$sia"/saturn-*.csv; do
		name=$(basename "$file" .csv)
		for quotas in demand equal; do
			simulate "${name%-*}-$quotas/${name##*-}" aws=24:1,dgx-ext=16:1,rtx=24:1 aws=4,dgx-ext=8,rtx=8 0.3 \
				--trace "$file" --speeds "$sia/speeds.csv" --teams 4 --quotas "$quotas" --round 60s
		done
	done
	for seed in 1 2 3 4; do
		simulate "venus-demand/$seed" v100=320:1,a100=128:2.2 8 0.1 --trace "$traces/helios_venus_may2020_50h.csv" --min-duration 5m \
			--teams 8 --seed "$seed" --restart-time 60
	done
}

# table OUT WORKLOAD prints, for every policy, means over the runs: mean JCT in minutes and its change compared with one
# pool per team and type, teams that are worse off than there, the largest ratio, restarts and moves per job.
table() {
	jq -rn --arg workload "$2" '
		def mean: add / length;
		def fixed(n): . * pow(10; n) | round / pow(10; n) | tostring | if contains(".") then . else . + "." end | . + "00" |
			capture("^(?<digits>[0-9]+[.][0-9]{\(n)})").digits;
		def percent: . * 100 | round | if . > 0 then "+\(.)" elif . < 0 then "−\(-.)" else "0" end;
		[inputs | input_filename as $file | .runs[] | . + {on: ($file | split("/")[-2]), run: ($file | split("/")[-3])}] as $runs |
		([$runs[] | select(.on == "divisible" and .policy == "team-type-partitions")] | map({(.run): .}) | add) as $pools |
		"| \($workload) | mean JCT in min | teams that lose | worst team | restarts, moves per job | not proven |", "|---|--:|--:|--:|--:|--:|",
		([["one pool per team and type", "divisible", "team-type-partitions"],
		 ["one pool per team", "divisible", "static-partitions"],
		 ["one pool per type", "divisible", "type-partitions"],
		 ["one pool per type on machines", "machines", "type-partitions"],
		 ["one decision without quotas on machines", "machines", "total-time-open"],
		 ["one decision", "divisible", "total-time"],
		 ["**one decision on machines**", "machines", "total-time"]][] as [$row, $on, $policy] |
		[$runs[] | select(.on == $on and .policy == $policy)] as $these |
		([$these[].mean_total_s] | mean) as $total |
		([$these[] | . as $run | .teams[]? | . as $team | .mean_total_s / ($pools[$run.run].teams[] | select(.team == $team.team) | .mean_total_s)]) as $ratios |
		"| \($row) | \($total / 60 | fixed(1)) (\($total / ([$pools[].mean_total_s] | mean) - 1 | percent)%) | \(
		if $ratios == [] then "–" else "\([$ratios[] | select(. > 1.0000001)] | length) of \($ratios | length)" end) | \(
		if $ratios == [] then "–" else $ratios | max | fixed(2) end) | \(
		[$these[] | (.resizes / .jobs) + (.placement_moves // 0)] | mean | fixed(1)), \([$these[].moves] | mean | fixed(1)) | \(
		[$these[].unproven] | add) of \([$these[].decisions] | add) |")
		' "$1/$2"/*/*/summary.json
}

# jobs OUT WORKLOAD prints, for every policy, the share of jobs with a longer JCT than with one pool per team and type, the
# share with one that is over 25% longer, and the mean over the runs of the longest JCT in hours.
jobs() {
	echo "| $2 | slower jobs | over 25% slower | longest JCT in h |"
	echo "|---|--:|--:|--:|"
	while IFS=, read -r row on policy; do
		for run in "$1/$2"/*; do
			awk -F, -v on="$on" -v policy="$policy" '
				FNR == 1 { file++ }
				file == 1 && $2 == "team-type-partitions" { pool[$5] = $10 }
				file == 2 && $2 == policy {
					jobs++; slower += $10 > pool[$5]; much += $10 > 1.25 * pool[$5]
					if ($10 > longest) longest = $10
				}
				END { print jobs, slower, much, longest / 3600 }' "$run/divisible/jobs.csv" "$run/$on/jobs.csv"
		done | awk -v row="$row" '
			{ jobs += $1; slower += $2; much += $3; longest += $4 }
			END { printf "| %s | %.0f%% | %.0f%% | %.1f |\n", row, 100 * slower / jobs, 100 * much / jobs, longest / NR }'
	done <<-END
		one pool per team and type,divisible,team-type-partitions
		one pool per team,divisible,static-partitions
		one pool per type,divisible,type-partitions
		one decision without quotas on machines,machines,total-time-open
		**one decision on machines**,machines,total-time
	END
}

case ${1-} in
run)
	lab=$2 sia=$3 traces=$4 out=$5
	run
	;;
tables)
	for workload in philly-demand saturn-demand venus-demand philly-equal saturn-equal; do
		echo
		table "$2" "$workload"
		echo
		jobs "$2" "$workload"
	done
	;;
*)
	sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
