#!/bin/sh
# Write the table "When it is worth it" of docs/evaluation/worth.md: scripts/worth.sh TRACES OUT, with the folder of the public
# traces and a new folder. GPUs are the units, and restarts take 3 min.
set -eu
traces=$1
out=$2
mkdir "$out"
for trace in itp_cluster02 itp_cluster04 itp_cluster08 helios_venus_may2020; do
	for growth in 0 2; do
		bin/elastalloc-lab simulate --trace "$traces/${trace}_50h.csv" --min-duration 5m --gpus-per-node 1 --unit gpu \
			--nodes 140,280,560,880 --max-growth $growth --restart-time 3m \
			--policy total-time,max-min,fifo-backfill --out "$out/$trace-$growth" >"$out/$trace-$growth.log"
	done
done
# One line per load, elastic share and growth limit: the number of pairs of trace and pool, and the mean changes in percent.
jq -rs '
	def mean: add / length;
	def band: if . < 0.3 then "below 0.3" elif . < 0.6 then "0.3 to 0.6" elif . < 1 then "0.6 to 1" elif . < 1.5 then "1 to 1.5" else "1.5 or more" end;
	def percent: mean * 1000 | round | if . == 0 then 0 else . / 10 end;
	[.[] | . as $s | ($s.origin.command | if test("--max-growth 2") then "2" else "none" end) as $growth
		| ($s.conditions.loads | map({key: (.nodes | tostring), value: .load}) | from_entries) as $load
		| $s.verdict.scenarios[] | . as $c
		| select($growth == "none" or .name != "no-job-above-its-request")
		| .runs[] | select(.policy == "total-time") | . as $run
		| {band: ($load[.nodes | tostring] | band), load: $load[.nodes | tostring],
			elastic: (if $c.name == "one-in-five-elastic" then "one in five" else "all" end),
			growth: (if $c.name == "no-job-above-its-request" then "1" else $growth end),
			late: .later_than_ideal_share,
			fifo: ([$c.runs[] | select(.policy == "fifo-backfill" and .nodes == $run.nodes)][0]),
			equal: ([$c.runs[] | select(.policy == "max-min" and .nodes == $run.nodes)][0]), run: $run}]
	| group_by([.band, .elastic, .growth])[]
	| [.[0].band, .[0].elastic, .[0].growth, length,
		(map(.run.mean_total_s / .fifo.mean_total_s - 1) | percent),
		(map(.run.mean_total_s / .equal.mean_total_s - 1) | percent),
		(map(.run.p95_total_s / .equal.p95_total_s - 1) | percent),
		(map(.late) | mean * 100 | round), (map(.equal.later_than_ideal_share) | mean * 100 | round)]
	| "| " + (map(tostring) | join(" | ")) + " |"' "$out"/*/summary.json
