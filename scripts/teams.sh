#!/bin/sh
# The tables of docs/evaluation/teams.md. Needs jq.
#
#   scripts/teams.sh run LAB TRACES OUT   simulate into the new folder OUT, about ten minutes of one core
#   scripts/teams.sh burst LAB TRACES OUT simulate teams that idle for 50 hours into OUT, about a minute
#   scripts/teams.sh tables OUT           print the tables as Markdown
#
# LAB is the program elastalloc-lab, TRACES a folder with helios_venus_may2020_50h.csv and
# helios_venus_may2020_20d.csv (docs/reference/traces.md describes how to create them).
set -eu

rivals=static-partitions,fifo-partitions,borrowing,borrowing-waiting,total-time-open,total-time-weights

# simulate NAME SEED VARIANT FLAGS... simulates a workload, its users shuffled into 8 teams,
# into a folder of its own.
simulate() {
	folder=$out/$1/$3-$2
	seed=$2
	shift 3
	"$lab" simulate --teams 8 --seed "$seed" --workers 1 --out "$folder" "$@"
}

# variants NAME FLAGS... simulates a workload under all policies, and total-time with other
# prices, limits and quotas.
variants() {
	name=$1
	shift
	for seed in 1 2 3; do
		simulate "$name" "$seed" all --policy "$rivals,total-time" "$@"
		for price in 0.1 1 3; do
			simulate "$name" "$seed" "price-$price" --policy static-partitions,total-time --total-time "quota_price=$price" "$@"
		done
		for limit in 1.5 2; do
			simulate "$name" "$seed" "limit-$limit" --policy static-partitions,total-time --total-time quota_price=0 \
				--team-limit "$limit" "$@"
		done
		simulate "$name" "$seed" quota-and-limit-2 --policy static-partitions,total-time --team-limit 2 "$@"
		simulate "$name" "$seed" equal --policy static-partitions,total-time-open,total-time --quotas equal "$@"
	done
}

run() {
	venus="--min-duration 5m --trace $traces/helios_venus_may2020"
	for restart in 60 0; do
		# The names of folders have no spaces.
		# shellcheck disable=SC2086
		variants "venus-$restart" ${venus}_50h.csv --nodes 70,110,150 --restart-time "$restart"
		variants "synthetic-$restart" --synthetic baseline --nodes 70,110,150 --restart-time "$restart"
	done
	for seed in 1 2; do
		# shellcheck disable=SC2086
		simulate venus-20-days-60 "$seed" all ${venus}_20d.csv --nodes 130,190 --restart-time 60 --policy "$rivals,total-time"
	done
	# Far more shuffles, for how often a team is worse off.
	for seed in $(seq 20); do
		for price in 0.3 1; do
			set -- --nodes 70,110,150 --restart-time 60 --total-time "quota_price=$price" \
				--policy static-partitions,total-time-open,total-time-weights,total-time
			# shellcheck disable=SC2086
			simulate venus-many "$seed" "$price" ${venus}_50h.csv "$@"
			simulate synthetic-many "$seed" "$price" --synthetic baseline "$@"
		done
	done
}

# late TEAM prints 100 hours of the trace with four teams. TEAM submits nothing for 50 hours, and the jobs of the
# other 50 hours within 5 hours.
late() {
	awk -F, -v OFS=, -v late="$1" '
		NR == 1 { print "job_id", "submit_s", "duration_s", "gpus", "group" }
		NR > 1 && $2 < 360000 && $3 >= 300 {
			if (!($5 in team)) team[$5] = "team-" (users++ % 4 + 1)
			if (team[$5] == late && $2 < 180000) next
			if (team[$5] == late) $2 = 180000 + int(($2 - 180000) / 10)
			print $1, $2, $3, $4, team[$5]
		}' "$traces/helios_venus_may2020_20d.csv" | sort -t, -s -n -k2,2
}

burst() {
	for team in 1 2 3 4; do
		for hours in 6 24 100; do
			late "team-$team" | "$lab" simulate --trace - --nodes 70 --quotas equal --restart-time 60 --workers 1 \
				--policy static-partitions,total-time,total-time-open,total-time-usage --usage-half-life "${hours}h" --out "$out/burst/$team-$hours"
		done
	done
}

# bursts OUT prints the mean JCT of the team that idles, and of all jobs, in minutes.
bursts() {
	echo "| policy | team 1 | team 2 | team 3 | team 4 |"
	echo "|---|--:|--:|--:|--:|"
	for row in static-partitions-24 total-time-24 total-time-open-24 total-time-usage-6 total-time-usage-24 total-time-usage-100; do
		policy=${row%-*} hours=${row##*-}
		for team in 1 2 3 4; do
			jq --arg policy "$policy" --arg team "team-$team" '.runs[] | select(.policy == $policy) |
				"\(.teams[] | select(.team == $team) | .mean_total_s / 60 | round), \(.mean_total_s / 60 | round)"' "$1/burst/$team-$hours/summary.json"
		done | jq -rs --arg policy "$policy" --arg hours "$hours" '"| `\($policy)`, half-life \($hours) h | " + join(" | ") + " |"'
	done
}

common='
def mean: add / length;
def fixed(n): . * pow(10; n) | round / pow(10; n) | tostring | if contains(".") then . else . + "." end | . + "00" |
	capture("^(?<digits>[0-9]+[.][0-9]{\(n)})").digits;
def percent: . * 100 | round | if . > 0 then "+\(.)" elif . < 0 then "−\(-.)" else "0" end;
'

# table NAME [all] prints every policy and, unless all, variant of a workload, and per pool:
# mean job completion time in minutes and its change against static partitions, the worst team
# against its partition, the share of the pool that was allocated, and resizes per job; means
# over shuffles, and the worst of them.
table() {
	jq -rn --arg only "${2-}" "$common"'
		[inputs | input_filename as $file | (.runs[] | . + {variant: ($file | split("/")[-2] | sub("-[0-9]+$"; ""))})] as $runs |
		($runs | [.[].nodes] | unique) as $pools |
		"| | \([$pools[] | "\(.) nodes"] | join(" | ")) |", "|---|\($pools | map("--:|") | add)",
		([["static partitions, total time inside", "all", "static-partitions"],
		 ["static partitions, fixed sizes", "all", "fifo-partitions"],
		 ["fixed sizes, borrowing", "all", "borrowing"],
		 ["fixed sizes, borrowing, none reclaimed", "all", "borrowing-waiting"],
		 ["one pool, no quotas", "all", "total-time-open"],
		 ["one pool, weights for quotas", "all", "total-time-weights"],
		 ["**one pool, quotas**", "all", "total-time"],
		 ["quotas at 0.1", "price-0.1", "total-time"],
		 ["quotas at 1", "price-1", "total-time"],
		 ["quotas at 3", "price-3", "total-time"],
		 ["limits of 1.5 quotas alone", "limit-1.5", "total-time"],
		 ["limits of 2 quotas alone", "limit-2", "total-time"],
		 ["quotas, limits of 2 quotas", "quota-and-limit-2", "total-time"],
		 ["*equal quotas:* static partitions", "equal", "static-partitions"],
		 ["*equal quotas:* one pool, no quotas", "equal", "total-time-open"],
		 ["*equal quotas:* one pool, quotas", "equal", "total-time"]][] as [$row, $variant, $policy] |
		select(any($runs[]; .variant == $variant) and ($only == "" or $variant == $only)) |
		"| \($row) | " + ([$pools[] as $nodes |
			[$runs[] | select(.variant == $variant and .nodes == $nodes)] as $here |
			[$here[] | select(.policy == $policy)] |
			([.[].mean_total_s] | mean) as $total |
			([$here[] | select(.policy == "static-partitions") | .mean_total_s] | mean) as $static |
			"\($total / 60 | round) (\($total / $static - 1 | percent) %), \([.[].worst_team_to_partition] | max | fixed(2)), \(
			[.[].utilization] | mean | fixed(2)), \([.[] | .resizes / .jobs] | mean | fixed(1))"] | join(" | ")) + " |")
		' "$1"/*/summary.json
}

# worse NAME prints in how many of many shuffles a team was worse off than in its
# partition, how many teams, the largest ratio, and the mean job completion time.
worse() {
	jq -rn "$common"'
		[inputs | input_filename as $file | (.runs[] | . + {price: ($file | split("/")[-2] | sub("-[0-9]+$"; ""))})] |
		map(select(.policy == "total-time" or .price == "0.3")) | group_by([.policy, .price])[] |
		.[0] as $first |
		"| \({"static-partitions": "static partitions", "total-time": "quotas at \($first.price)", "total-time-open": "no quotas",
			"total-time-weights": "weights for quotas"}[$first.policy]) | " +
		([group_by(.nodes)[] | [.[].teams[].ratio_to_partition] as $teams |
			"\([.[].mean_total_s] | mean / 60 | round) min, \([.[] | select(.worst_team_to_partition > 1)] | length) of \(length) runs, \(
			[$teams[] | select(. > 1)] | length) of \($teams | length) teams, \($teams | max | fixed(2))"] | join(" | ")) + " |"
		' "$1"/*/summary.json
}

case ${1-} in
run | burst)
	lab=$2 traces=$3 out=$4
	"$1"
	;;
tables)
	if [ -d "$2/burst" ]; then
		printf '\nA team that idles for 50 hours: its mean JCT, and the mean JCT of all jobs, in minutes\n\n'
		bursts "$2"
	fi
	[ -d "$2/venus-60" ] || exit 0
	for name in venus-60 synthetic-60; do
		printf '\n%s\n\n' "$name"
		table "$2/$name"
	done
	for name in venus-0 synthetic-0 venus-20-days-60; do
		printf '\n%s\n\n' "$name"
		table "$2/$name" all
	done
	for name in venus-many synthetic-many; do
		printf '\nTeams worse off than in their partitions: %s\n\n' "$name"
		worse "$2/$name"
	done
	;;
*)
	sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
