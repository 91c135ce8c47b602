#!/bin/sh
# The tables of docs/evaluation/policies.md, and longer ones. Needs jq.
#
#   scripts/policies.sh run LAB TRACES OUT   simulate into the new folder OUT, about ten minutes
#   scripts/policies.sh held LAB TRACES OUT  the same of two further traces, about a minute
#   scripts/policies.sh tables OUT           print the tables of either as Markdown
#
# LAB is the program elastalloc-lab, TRACES a folder with the files NAME_50h.csv of itp_cluster04
# and helios_venus_may2020, for held of itp_cluster02 and itp_cluster08 (docs/reference/traces.md says how
# to make them).
set -eu

pools=70,90,110,130,150,170,190
policies=total-time,total-time-waiting,total-time-steady,hesrpt-event,optimal,optimal-event,hesrpt,max-min,greedy,fifo,srpt
elastic=total-time,total-time-waiting,optimal,max-min,greedy,fifo,srpt

# simulate FLAGS... runs the four workloads into folders of their own.
simulate() {
	name=$1
	shift
	for trace in itp_cluster04_50h helios_venus_may2020_50h; do
		"$lab" simulate --trace "$traces/$trace.csv" --min-duration 5m --workers 1 --out "$out/$name/$trace" "$@"
	done
	for seed in 1 2; do
		"$lab" simulate --synthetic baseline --seed "$seed" --workers 1 --out "$out/$name/synthetic-$seed" "$@"
	done
}

run() {
	for restart in 0 60 180; do
		simulate "restart-$restart" --nodes "$pools" --policy "$policies" --restart-time "$restart"
	done
	for vary in weights weights-rising weights-falling efficiencies minimums weights,efficiencies,minimums; do
		simulate "$vary" --nodes 70,130,190 --policy "$policies" --vary "$vary"
	done
	for vary in '' rigid-half rigid-most; do
		simulate "elastic-$vary" --nodes 70,110,150 --policy "$elastic" --restart-time 60s --vary "$vary"
	done
}

held() {
	for trace in itp_cluster02_50h itp_cluster08_50h; do
		for restart in 0 60 180; do
			"$lab" simulate --trace "$traces/$trace.csv" --min-duration 5m --workers 1 --out "$out/held/$trace-$restart" \
				--nodes "$pools" --policy total-time,total-time-waiting,optimal,max-min --restart-time "$restart"
		done
	done
}

# against is a jq function: every run beside the run of optimal on the same workload and
# pool, the runs of each policy together.
against='
def mean: add / length;
def point: tostring | if contains(".") then . else . + ".0" end;
def percent: (. * 1000 | round) / 10 | if . > 0 then "+" + point elif . < 0 then "−" + (-. | point) else "0" end;
def tenth: . * 10 | round / 10 | point;
def policies: ["total-time", "total-time-waiting", "total-time-steady", "hesrpt-event", "optimal", "optimal-event",
  "hesrpt", "max-min", "greedy", "fifo", "srpt"];
def pairs: . as $runs | [$runs[] | select(.policy == "optimal")] | INDEX("\(.trace) \(.seed) \(.nodes)") as $optimal |
  [$runs[] | . + {optimal: $optimal["\(.trace) \(.seed) \(.nodes)"]}];
def change(of): [.[] | of / (.optimal | of) - 1];
'

# restarts FILE... prints the table of runs over all workloads and pools.
restarts() {
	jq -rs "$against"'
		[.[].runs[]] | pairs as $pairs |
		"| policy | mean total (%) | worst, best pair (%) | p95 (%) | max (%) | without nodes (min) | largest slowdown | rescales per job | later than equal shares (% of jobs) | worst ratio to equal shares |",
		"|---|---|---|---|---|---|---|---|---|---|",
		(policies[] as $policy | [$pairs[] | select(.policy == $policy)] |
			change(.mean_total_s) as $total |
			"| `\($policy)` | \($total | mean | percent) | \($total | max | percent), \($total | min | percent) | \(
				change(.p95_total_s) | mean | percent) | \(change(.max_total_s) | mean | percent) | \(
				[.[].mean_unserved_s / 60] | mean | tenth) | \([.[].max_slowdown] | max | tenth) | \(
				[.[] | .rescales / .jobs] | mean * 100 | round / 100) | \([.[].later_than_max_min * 100] | mean | round) | \(
				[.[].worst_ratio_to_max_min] | max | tenth) |")' "$@"
}

# minutes FILE... prints mean total times by workload and pool.
minutes() {
	jq -rs "$against"'
		[.[].runs[]] as $runs | policies as $policies |
		"| workload | nodes | " + ($policies | map("`\(.)`") | join(" | ")) + " |",
		"|---|---|" + ($policies | map("---|") | add),
		($runs |
			group_by([.trace, .seed, .nodes])[] | . as $group | .[0] |
			"| \(.trace)\(if .trace | startswith("synthetic") then ", seed \(.seed)" else "" end) | \(.nodes) | " +
			([$policies[] as $policy | $group[] | select(.policy == $policy) | .mean_total_s / 60 | tenth] | join(" | ")) + " |")' "$@"
}

# differing OUT prints the tables of jobs that differ.
differing() {
	echo "| jobs | $(echo "$policies" | sed 's/,/ | /g') |"
	echo "|---|$(echo "$policies" | sed 's/[^,]*,\{0,1\}/---|/g')"
	for vary in weights weights-rising weights-falling efficiencies minimums weights,efficiencies,minimums; do
		jq -rs --arg vary "$vary" "$against"'
			[.[].runs[]] | pairs as $pairs | "| \($vary) | " + ([policies[] as $policy | [$pairs[] | select(.policy == $policy)] |
				change(.weighted_mean_total_s) | "\(mean | percent) (\(max | percent))"] | join(" | ")) + " |"' "$1/$vary"/*/summary.json
	done
	for nodes in 70 130; do
		jq -rs --argjson nodes "$nodes" "$against"'
			[.[].runs[] | select(.nodes == $nodes)] as $runs | "| longest wait of a big minimum, \($nodes) nodes (min) | " +
			([policies[] as $policy | [$runs[] | select(.policy == $policy) | .max_unserved_big_s / 60] | max | round | tostring] |
				join(" | ")) + " |"' "$1"/minimums/*/summary.json
	done
}

# shares OUT prints the table of elastic shares, against total-time.
shares() {
	echo "| elastic | nodes | $(echo "$elastic" | sed 's/total-time,//; s/,/ | /g') |"
	echo "|---|---|$(echo "$elastic" | sed 's/total-time,//; s/[^,]*,\{0,1\}/---|/g')"
	for vary in '' rigid-half rigid-most; do
		jq -rs --arg vary "${vary:-all}" --arg policies "${elastic#*,}" '
			def mean: add / length;
			def percent: . * 100 | round | if . > 0 then "+\(.)" elif . < 0 then "−\(-.)" else "0" end;
			[.[].runs[]] as $runs |
			([$runs[] | select(.policy == "total-time")] | INDEX("\(.trace) \(.seed) \(.nodes)")) as $best |
			([$runs[].nodes] | unique)[] as $nodes | "| \($vary) | \($nodes) | " + ([($policies | split(","))[] as $policy |
				[$runs[] | select(.policy == $policy and .nodes == $nodes) |
					.mean_total_s / $best["\(.trace) \(.seed) \(.nodes)"].mean_total_s - 1] |
				"\(mean | percent) (\(min | percent) to \(max | percent))"] | join(" | ")) + " |"' "$1/elastic-$vary"/*/summary.json
	done
}

# ranges OUT prints what total-time does on the further traces, as ranges over the pools.
ranges() {
	echo "| trace, restart | mean total against optimal (%) | against max-min: mean total (%) | p95 (%) | max (%) | rescales, times | later (% of jobs) | worst ratio | total-time-waiting: mean total against optimal (%) | against max-min (%) | later (% of jobs) |"
	echo "|---|---|---|---|---|---|---|---|---|---|---|"
	for file in "$1"/held/*/summary.json; do
		jq -r --arg name "$(basename "$(dirname "$file")")" '
			def percent: . * 100 | round | if . > 0 then "+\(.)" elif . < 0 then "−\(-.)" else "0" end;
			def range(text): "\(min | text) to \(max | text)";
			.runs as $runs | def of(policy): [$runs[] | select(.policy == policy)] | sort_by(.nodes);
			def change(policy; base; field): [of(policy), of(base)] | transpose | map((.[0] | field) / (.[1] | field) - 1);
			"| \($name) s | " + ([
				(change("total-time"; "optimal"; .mean_total_s) | range(percent)),
				(change("total-time"; "max-min"; .mean_total_s) | range(percent)),
				(change("total-time"; "max-min"; .p95_total_s) | range(percent)),
				(change("total-time"; "max-min"; .max_total_s) | range(percent)),
				(change("total-time"; "max-min"; .rescales) | map(. + 1) | range(. * 10 | round / 10 | tostring)),
				(of("total-time") | map(.later_than_max_min) | range(. * 100 | round | tostring)),
				(of("total-time") | map(.worst_ratio_to_max_min) | max | . * 10 | round / 10 | tostring),
				(change("total-time-waiting"; "optimal"; .mean_total_s) | range(percent)),
				(change("total-time-waiting"; "max-min"; .mean_total_s) | range(percent)),
				(of("total-time-waiting") | map(.later_than_max_min) | range(. * 100 | round | tostring))] | join(" | ")) + " |"' "$file"
	done
}

case ${1-} in
run | held)
	lab=$2 traces=$3 out=$4
	"$1"
	;;
tables)
	if [ -d "$2/held" ]; then
		printf '\nTwo further traces: total-time, ranges over the pools\n\n'
		ranges "$2"
	fi
	[ -d "$2/restart-0" ] || exit 0
	for restart in 0 60 180; do
		printf '\nA restart of %s s\n\n' "$restart"
		restarts "$2/restart-$restart"/*/summary.json
	done
	printf '\nMean total time in minutes, without restarts\n\n'
	minutes "$2"/restart-0/*/summary.json
	printf '\nJobs that differ: weighted mean total time against optimal, mean (worst pair), %%\n\n'
	differing "$2"
	printf '\nElastic shares: mean total time against total-time, mean (best to worst workload), %%\n\n'
	shares "$2"
	;;
*)
	sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
