#!/bin/sh
# The tables of docs/evaluation/policies.md, and longer ones. Needs jq.
#
#   scripts/policies.sh public LAB TRACES OUT  simulate the set "public" into OUT, about three minutes
#   scripts/policies.sh run LAB TRACES OUT     simulate the set "mixed" into OUT, about ten minutes
#   scripts/policies.sh unseen LAB TRACES OUT  simulate the two other traces at three restart times, about a minute
#   scripts/policies.sh fair LAB TRACES OUT    simulate the set "public" at four values of share_price, about a minute
#   scripts/policies.sh late TRACES OUT        build elastalloc-lab without rules that make jobs late, and simulate the
#                                              set "public" at a share_price of 0.5, about two minutes; needs go
#   scripts/policies.sh tables OUT             print the tables of all of them as Markdown
#
# LAB is the program elastalloc-lab, TRACES a folder with the files NAME_50h.csv of itp_cluster04,
# helios_venus_may2020, itp_cluster02 and itp_cluster08 (docs/reference/traces.md describes how to create them).
set -eu

pools=70,90,110,130,150,170,190
policies=total-time,total-time-waiting,total-time-steady,hesrpt-event,optimal,optimal-event,hesrpt,max-min,greedy,fifo,srpt
prices='0 0.1 0.2 0.5'
late='none budget payback loading budget-payback-loading' # Rules that a build is without.
elastic=total-time,total-time-waiting,optimal,max-min,fifo

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
}

public() {
	for vary in '' rigid-half rigid-most; do
		for trace in itp_cluster04_50h itp_cluster02_50h itp_cluster08_50h helios_venus_may2020_50h; do
			"$lab" simulate --trace "$traces/$trace.csv" --min-duration 5m --workers 1 --out "$out/public-$vary/$trace" \
				--nodes "$pools" --policy "$elastic" --restart-time 180s --vary "$vary"
		done
	done
}

fair() {
	for price in $prices; do
		share "fair-$price" "$price"
	done
}

# share FOLDER PRICE runs the set "public" at one value of share_price.
share() {
	for trace in itp_cluster04_50h itp_cluster02_50h itp_cluster08_50h helios_venus_may2020_50h; do
		"$lab" simulate --trace "$traces/$trace.csv" --min-duration 5m --workers 1 --out "$out/$1/$trace" \
			--nodes "$pools" --policy total-time,max-min --restart-time 180s --total-time "share_price=$2"
	done
}

# change FILE SCRIPT edits a file of solver/ for the next build.
change() {
	mkdir -p "$scratch/$(dirname "$1")"
	[ -e "$scratch/$1" ] || cp "solver/$1" "$scratch/$1"
	cp "$scratch/$1" "$scratch/before"
	sed -i "$2" "$scratch/$1"
	! cmp -s "$scratch/before" "$scratch/$1" || { echo "policies.sh: $2 changes nothing in solver/$1" >&2 && exit 1; }
}

# late builds elastalloc-lab without each of three rules, and without all of them.
late() {
	for rules in $late; do
		scratch=$(mktemp -d)
		case $rules in *budget*) change snapshot.go 's/\(MaxRecentRestarts = \)3$/\11000000/' ;; esac
		case $rules in *payback*) change problem/totaltime.go 's/payback = max(payback, kept)/_ = kept/' ;; esac
		case $rules in *loading*)
			change problem/totaltime.go 's/loading = job.RestartTime.Seconds()/loading = 0/'
			change problem/totaltime.go 's/if s.Jobs\[i\].NeverStarted()/if false/'
			;;
		esac
		(cd "$scratch" && find . -name '*.go') | jq -Rn --arg from "$PWD/solver" --arg to "$scratch" \
			'{Replace: ([inputs | {key: ($from + .[1:]), value: ($to + .[1:])}] | from_entries)}' >"$scratch/overlay.json"
		go -C lab build -overlay "$scratch/overlay.json" -o "$scratch/lab" ./cmd/elastalloc-lab
		lab=$scratch/lab
		share "late-$rules" 0.5
		rm -rf "$scratch"
	done
}

unseen() {
	for trace in itp_cluster02_50h itp_cluster08_50h; do
		for restart in 0 60 180; do
			"$lab" simulate --trace "$traces/$trace.csv" --min-duration 5m --workers 1 --out "$out/unseen/$trace-$restart" \
				--nodes "$pools" --policy total-time,total-time-waiting,optimal,max-min --restart-time "$restart"
		done
	done
}

# against is a jq function: every run compared with the run of optimal on the same workload and
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
		"| policy | mean total (%) | worst, best pair (%) | p95 (%) | max (%) | without nodes (min) | largest slowdown | resizes per job | later than equal shares (% of jobs) | worst ratio to equal shares |",
		"|---|---|---|---|---|---|---|---|---|---|",
		(policies[] as $policy | [$pairs[] | select(.policy == $policy)] |
			change(.mean_total_s) as $total |
			"| `\($policy)` | \($total | mean | percent) | \($total | max | percent), \($total | min | percent) | \(
				change(.p95_total_s) | mean | percent) | \(change(.max_total_s) | mean | percent) | \(
				[.[].mean_unserved_s / 60] | mean | tenth) | \([.[].max_slowdown] | max | tenth) | \(
				[.[] | .resizes / .jobs] | mean * 100 | round / 100) | \([.[].later_than_max_min * 100] | mean | round) | \(
				[.[].worst_ratio_to_max_min] | max | tenth) |")' "$@"
}

# compared FILE... prints total-time compared with max-min as means over all workloads and pools.
compared() {
	jq -rs "$names"'
		[.[].runs[]] as $runs | def pair: "\(.trace) \(.seed) \(.nodes)";
		([$runs[] | select(.policy == "max-min")] | INDEX(pair)) as $fair |
		[$runs[] | select(.policy == "total-time") | . + {fair: $fair[pair]}] |
		def change(of): [.[] | of / (.fair | of) - 1] | mean | percent;
		"| mean JCT | p95 JCT | longest JCT | later | resizes per job |",
		"|--:|--:|--:|--:|--:|",
		"| \(change(.mean_total_s)) | \(change(.p95_total_s)) | \(change(.max_total_s)) | \(
			[.[].later_than_max_min * 100] | mean | round)% | \([.[] | .resizes / .jobs] | mean | . * 100 | round / 100) |"' "$@"
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

# names names the shares of elastic jobs.
names='
def name: {"": "all", "rigid-half": "one in two", "rigid-most": "one in five"}[.];
def mean: add / length;
def percent: (. * 1000 | round) / 10 | if . > 0 then "+\(.)%" elif . < 0 then "−\(-.)%" else "0%" end;
def point: . * 10 | round / 10;
'

# results OUT prints every policy compared with max-min fair shares, by share of elastic jobs.
results() {
	echo "| elastic jobs | policy | mean JCT | worst pair | p95 JCT | longest JCT | utilization | idle node hours | resizes per job | later |"
	echo "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
	for vary in '' rigid-half rigid-most; do
		jq -rs --arg vary "$vary" "$names"'
			[.[].runs[]] as $runs | ([$runs[] | select(.policy == "max-min")] | INDEX("\(.trace) \(.nodes)")) as $fair |
			("fifo", "max-min", "optimal", "total-time", "total-time-waiting") as $policy |
			[$runs[] | select(.policy == $policy) | . + {fair: $fair["\(.trace) \(.nodes)"]}] |
			def change(of): [.[] | of / (.fair | of) - 1];
			"| \($vary | name) | `\($policy)` | \(change(.mean_total_s) | mean | percent) | \(change(.mean_total_s) | max | percent) | \(
				change(.p95_total_s) | mean | percent) | \(change(.max_total_s) | mean | percent) | \(
				[.[].utilization * 100] | mean | point)% | \([.[].idle_node_hours] | mean | round) | \(
				[.[] | .resizes / .jobs] | mean | . * 100 | round / 100) | \([.[].later_than_max_min * 100] | mean | round)% |"' \
			"$1/public-$vary"/*/summary.json
	done
}

# shares OUT prints by how much total-time is lower than other policies, by share of elastic jobs and pool.
shares() {
	echo "| elastic jobs | nodes | load | compared with fifo | with max-min | with optimal |"
	echo "|---|--:|--:|--:|--:|--:|"
	for vary in '' rigid-half rigid-most; do
		jq -rs --arg vary "$vary" "$names"'
			[.[].runs[]] as $runs | [.[].conditions.loads[]] as $loads |
			def run(policy; nodes; trace): $runs[] | select(.policy == policy and .nodes == nodes and .trace == trace) | .mean_total_s;
			(70, 110, 150, 190) as $nodes | ([$runs[].trace] | unique) as $traces |
			def cell(policy): [$traces[] as $t | run("total-time"; $nodes; $t) / run(policy; $nodes; $t) - 1] |
				"\(mean | percent) (\(min | percent) to \(max | percent))";
			([$loads[] | select(.nodes == $nodes) | .load]) as $load |
			"| \($vary | name) | \($nodes) | \($load | min * 100 | round / 100) to \($load | max * 100 | round / 100) | \(cell("fifo")) | \(cell("max-min")) | \(cell("optimal")) |"' \
			"$1/public-$vary"/*/summary.json
	done
}

# fairness OUT prints max-min and total-time compared with max-min, by share_price.
fairness() {
	echo "| policy | mean JCT | p95 JCT | longest JCT | later | over 10% later | later than ideal | pauses per job | resizes per job |"
	echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
	fairnessOf max-min '`max-min`' "$1/fair-0"
	for price in $prices; do
		fairnessOf total-time "\`share_price\` $price" "$1/fair-$price"
	done
}

# lateness OUT prints total-time without rules compared with max-min.
lateness() {
	echo "| build without | mean JCT | p95 JCT | longest JCT | later | over 10% later | later than ideal | pauses per job | resizes per job |"
	echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
	for rules in $late; do
		fairnessOf total-time "$rules" "$1/late-$rules"
	done
}

# fairnessOf POLICY NAME FOLDER prints a row of the table.
fairnessOf() {
	# The share of jobs that take more than 10% longer than under max-min.
	much=$(awk -F, -v policy="$1" '
		$2 == "max-min" { fair[FILENAME, $3, $5] = $10 }
		$2 == policy { time[FILENAME, $3, $5] = $10 }
		END {
			for (job in time) {
				split(job, part, SUBSEP)
				pair = part[1] SUBSEP part[2]
				jobs[pair]++
				late[pair] += time[job] > 1.1 * fair[job]
			}
			for (pair in jobs) sum += late[pair] / jobs[pair]
			print sum / length(jobs)
		}' "$3"/*/jobs.csv)
	jq -rs --arg policy "$1" --arg name "$2" --argjson much "$much" "$names"'
		[.[].runs[]] as $runs | ([$runs[] | select(.policy == "max-min")] | INDEX("\(.trace) \(.nodes)")) as $fair |
		[$runs[] | select(.policy == $policy) | . + {fair: $fair["\(.trace) \(.nodes)"]}] |
		def change(of): [.[] | of / (.fair | of) - 1] | mean | percent;
		def share(of): [.[] | of * 100] | mean | point;
		def perJob(of): [.[] | of] | mean | . * 100 | round / 100;
		"| \($name) | \(change(.mean_total_s)) | \(change(.p95_total_s)) | \(change(.max_total_s)) | \(share(.later_than_max_min))% | \(
			$much * 100 | point)% | \(share(.later_than_ideal_share))% | \(perJob(.pauses)) | \(perJob(.resizes / .jobs)) |"' "$3"/*/summary.json
}

# traces OUT prints the traces of the set and their loads.
traces() {
	echo "| trace | jobs | smaller than a node | load at 70, 110, 150 and 190 nodes |"
	echo "|---|--:|--:|---|"
	jq -r '. as $s | "| `\(.runs[0].trace)` | \(.conditions.jobs) | \(.cut.jobs_below_node / .conditions.jobs * 100 | round)% | \(
		[(70, 110, 150, 190) as $n | $s.conditions.loads[] | select(.nodes == $n) | .load * 100 | round / 100 | tostring] | join(", ")) |"' \
		"$1"/public-/*/summary.json
}

# ranges OUT prints what total-time does on the further traces, as ranges over the pools.
ranges() {
	echo "| trace, restart | mean total against optimal (%) | against max-min: mean total (%) | p95 (%) | max (%) | resizes, times | later (% of jobs) | worst ratio | total-time-waiting: mean total against optimal (%) | against max-min (%) | later (% of jobs) |"
	echo "|---|---|---|---|---|---|---|---|---|---|---|"
	for file in "$1"/unseen/*/summary.json; do
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
				(change("total-time"; "max-min"; .resizes) | map(. + 1) | range(. * 10 | round / 10 | tostring)),
				(of("total-time") | map(.later_than_max_min) | range(. * 100 | round | tostring)),
				(of("total-time") | map(.worst_ratio_to_max_min) | max | . * 10 | round / 10 | tostring),
				(change("total-time-waiting"; "optimal"; .mean_total_s) | range(percent)),
				(change("total-time-waiting"; "max-min"; .mean_total_s) | range(percent)),
				(of("total-time-waiting") | map(.later_than_max_min) | range(. * 100 | round | tostring))] | join(" | ")) + " |"' "$file"
	done
}

case ${1-} in
run | unseen | public | fair)
	lab=$2 traces=$3 out=$4
	"$1"
	;;
late)
	traces=$2 out=$3
	late
	;;
tables)
	if [ -d "$2/unseen" ]; then
		printf '\nTwo further traces: total-time, ranges over the pools\n\n'
		ranges "$2"
	fi
	if [ -d "$2/fair-0" ]; then
		printf '\nThe set "public": total-time compared with max-min by share_price, restarts of 180 s\n\n'
		fairness "$2"
	fi
	if [ -d "$2/late-none" ]; then
		printf '\nThe same at a share_price of 0.5, without rules\n\n'
		lateness "$2"
	fi
	if [ -d "$2/public-" ]; then
		printf '\nThe set "public": its traces\n\n'
		traces "$2"
		printf '\nCompared with max-min, restarts of 180 s, means over traces and pools\n\n'
		results "$2"
		printf '\nMean JCT of total-time, mean (range) over the traces\n\n'
		shares "$2"
	fi
	[ -d "$2/restart-0" ] || exit 0
	for restart in 0 60 180; do
		printf '\nA restart of %s s\n\n' "$restart"
		restarts "$2/restart-$restart"/*/summary.json
		printf '\ntotal-time compared with max-min\n\n'
		compared "$2/restart-$restart"/*/summary.json
	done
	printf '\nMean total time in minutes, without restarts\n\n'
	minutes "$2"/restart-0/*/summary.json
	printf '\nJobs that differ: weighted mean total time against optimal, mean (worst pair), %%\n\n'
	differing "$2"
	;;
*)
	sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
