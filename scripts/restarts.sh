#!/bin/sh
# The table of restart budgets in docs/evaluation/sequences.md. Needs go and jq.
#
#   scripts/restarts.sh run TRACES OUT  build variants of elastalloc-lab and simulate into OUT, about ten minutes
#   scripts/restarts.sh tables OUT      print the table as Markdown
#
# TRACES is a folder with the files NAME_50h.csv (docs/reference/traces.md describes how to create them).
set -eu

budgets='none 2 3 4'

# build BUDGET FILE builds elastalloc-lab with a budget of 3 restarts in 3*BUDGET restart times.
build() {
	case $1 in
	none) file=snapshot.go change='s/\(MaxRecentRestarts = \)3$/\11000000/' ;;
	*) file=restarts.go change="s/\(restartBudgetTimes = \)4$/\1$1/" ;;
	esac
	sed "$change" "solver/$file" >"$scratch/$file"
	echo "{\"Replace\": {\"$PWD/solver/$file\": \"$scratch/$file\"}}" >"$scratch/overlay.json"
	go -C lab build -overlay "$scratch/overlay.json" -o "$2" ./cmd/elastalloc-lab
}

run() {
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	for budget in $budgets; do
		build "$budget" "$scratch/lab"
		for vary in '' rigid-most; do
			for restart in 60 180 300 600; do
				for trace in itp_cluster04 itp_cluster02 itp_cluster08 helios_venus_may2020; do
					"$scratch/lab" simulate --trace "$traces/${trace}_50h.csv" --min-duration 5m --nodes 70,110,150 --workers 1 \
						--policy total-time --restart-time "$restart" --vary "$vary" --out "$out/$vary-$restart-$budget/$trace"
				done
			done
		done
	done
}

tables() {
	echo "| elastic jobs | restart | K = 2 | K = 3 | K = 4 |"
	echo "|---|--:|--:|--:|--:|"
	for vary in '' rigid-most; do
		for restart in 60 180 300 600; do
			for budget in $budgets; do
				jq -s --arg budget "$budget" '[.[].runs[] | {budget: $budget, pair: "\(.trace) \(.nodes)", mean: .mean_total_s}]' \
					"$1/$vary-$restart-$budget"/*/summary.json
			done | jq -rs --arg vary "$vary" --arg restart "$restart" '
				def point: tostring | if contains(".") then . else . + ".0" end;
				def percent: (. * 1000 | round) / 10 | if . > 0 then "+\(point)" elif . < 0 then "−\(-. | point)" else "0.0" end;
				add | ([.[] | select(.budget == "none")] | INDEX(.pair)) as $none |
				"| \({"": "all", "rigid-most": "one in five"}[$vary]) | \($restart) s | " + ([("2", "3", "4") as $budget |
					[.[] | select(.budget == $budget) | .mean / $none[.pair].mean - 1] |
					"\(add / length | percent)% (\(min | percent) to \(max | percent))"] | join(" | ")) + " |"'
		done
	done
}

case ${1-} in
run)
	traces=$2 out=$3
	run
	;;
tables) tables "$2" ;;
*)
	sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
