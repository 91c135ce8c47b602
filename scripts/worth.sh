#!/bin/sh
# The tables of docs/evaluation/worth.md. Needs jq. Restarts take 3 min.
#
#   scripts/worth.sh loads TRACES OUT     by load, elastic share and growth limit, with GPUs as units, some minutes
#   scripts/worth.sh readings TRACES OUT  one trace under several assumptions, with nodes and with GPUs as units
#
# TRACES is a folder with the files NAME_50h.csv of itp_cluster02, itp_cluster04, itp_cluster08 and helios_venus_may2020
# (docs/reference/traces.md describes how to create them), and OUT a new folder.
set -eu

simulate() { # name flags...
	folder=$out/$1
	shift
	bin/elastalloc-lab simulate --restart-time 3m --out "$folder" "$@" >"$folder.log"
}

# loads prints one line per load, elastic share and growth limit: the number of pairs of trace and pool, and the mean
# changes in percent.
loads() {
	for trace in itp_cluster02 itp_cluster04 itp_cluster08 helios_venus_may2020; do
		for growth in 0 2; do
			simulate "$trace-$growth" --trace "$traces/${trace}_50h.csv" --min-duration 5m --gpus-per-node 1 --unit gpu \
				--nodes 140,280,560,880 --max-growth $growth --policy total-time,max-min,fifo-backfill
		done
	done
	jq -rs '
		def mean: add / length;
		def band: if . < 0.3 then "below 0.3" elif . < 0.6 then "0.3 to 0.6" elif . < 1 then "0.6 to 1" elif . < 1.5 then "1 to 1.5" else "1.5 or more" end;
		def percent: mean * 1000 | round | if . == 0 then "0%" else "\(if . > 0 then "+" else "−" end)\(fabs / 10 | floor).\(fabs % 10)%" end;
		"| load | elastic jobs | growth limit | pairs | mean, with backfill | mean, with max-min | 95th percentile, with max-min | late | late with max-min |",
		"|---|---|---|--:|--:|--:|--:|--:|--:|",
		([.[] | . as $s | ($s.origin.command | if test("--max-growth 2") then "twice the request" else "none" end) as $growth
			| ($s.conditions.loads | map({key: (.nodes | tostring), value: .load}) | from_entries) as $load
			| $s.verdict.scenarios[] | . as $c
			| select($growth == "none" or .name != "no-job-above-its-request")
			| .runs[] | select(.policy == "total-time") | . as $run
			| {load: $load[.nodes | tostring], band: ($load[.nodes | tostring] | band),
				elastic: (if $c.name == "one-in-five-elastic" then "one in five" else "all" end),
				growth: (if $c.name == "no-job-above-its-request" then "the request" else $growth end),
				fifo: ([$c.runs[] | select(.policy == "fifo-backfill" and .nodes == $run.nodes)][0]),
				equal: ([$c.runs[] | select(.policy == "max-min" and .nodes == $run.nodes)][0]), run: $run}]
		| group_by([.band, .elastic, .growth]) | sort_by((map(.load) | min), .[0].elastic, (.[0].growth as $g | ["none", "twice the request", "the request"] | index($g)))[]
		| [.[0].band, .[0].elastic, .[0].growth, length,
			(map(.run.mean_total_s / .fifo.mean_total_s - 1) | percent),
			(map(.run.mean_total_s / .equal.mean_total_s - 1) | percent),
			(map(.run.p95_total_s / .equal.p95_total_s - 1) | percent),
			"\(map(.run.later_than_ideal_share) | mean * 100 | round)%", "\(map(.equal.later_than_ideal_share) | mean * 100 | round)%"]
		| "| " + (map(tostring) | join(" | ")) + " |")' "$out"/*/summary.json
}

# readings prints the mean JCT in minutes of Helios Venus, with its short jobs.
readings() {
	for pool in 70 133; do
		gpus="--nodes $((8 * pool)) --gpus-per-node 1 --unit gpu"
		for flags in "--nodes $pool" "--nodes $pool --max-growth 2" "--nodes $pool --max-growth 1" "$gpus" "$gpus --max-growth 1"; do
			# shellcheck disable=SC2086 # Several words.
			simulate "$(echo "$flags" | tr -d ' ')" --trace "$traces/helios_venus_may2020_50h.csv" --policy fifo,max-min,total-time $flags
		done
	done
	echo '| flags | FIFO | max-min | total-time |'
	echo '|---|--:|--:|--:|'
	jq -rs 'def minutes(policy): [.runs[] | select(.policy == policy)][0].mean_total_s / 6 | round / 10;
		sort_by(.runs[0].nodes)[] | "| `\(.origin.command | [match("--(?:nodes|gpus-per-node|max-growth) [0-9]+"; "g").string] | join(" "))` | \(
		minutes("fifo")) | \(minutes("max-min")) | \(minutes("total-time")) |"' "$out"/*/summary.json
}

case ${1-} in
loads | readings)
	traces=$2 out=$3
	mkdir "$out"
	"$1"
	;;
*)
	sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
