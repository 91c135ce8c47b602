#!/bin/sh
# The tables of docs/evaluation/gpu-units.md. Needs jq.
#
#   scripts/gpus.sh units LAB TRACES OUT      whole machines compared with GPUs
#   scripts/gpus.sh shares LAB TRACES OUT     policies by share of elastic jobs and pool
#   scripts/gpus.sh placement LAB TRACES OUT  placement on machines, by blocks
#   scripts/gpus.sh damaged LAB TRACES OUT    machines that lack GPUs, with and without size limits
#   scripts/gpus.sh tables OUT                print the tables of the simulated sets as Markdown
#
# LAB is the program elastalloc-lab, TRACES a folder with the files NAME_50h.csv of itp_cluster02,
# itp_cluster04, itp_cluster08 and helios_venus_may2020 (docs/reference/traces.md describes how to create
# them). The variable NAMES selects some of the traces. A simulation whose results are in OUT is not
# repeated, so an interrupted set can be continued.
set -eu

names=${NAMES:-itp_cluster04 helios_venus_may2020 itp_cluster02 itp_cluster08}
seeds='1 2 3'

# overlay FILE UNIT FACTOR overlays a trace with shifted copies of itself, to a load of about 560 GPUs, and
# adds sizes and speeds. UNIT is the number of GPUs of a node. A job that requested g GPUs may have g/4 to 4g
# of them, rounded to powers of two, and whole nodes. Each doubling makes it 1.9 times as fast up to 8 GPUs,
# and 1.7 times as fast above. On one node, a job uses at most FACTOR times the GPUs that it requested.
overlay() {
	echo job_id,submit_s,duration_s,gpus,work_s,allowed_nodes,speeds
	awk -F, -v unit="$2" -v factor="$3" '
		function speed(gpus, doublings) {
			doublings = log(gpus) / log(2)
			return exp(log(1.9) * (doublings < 3 ? doublings : 3) + log(1.7) * (doublings > 3 ? doublings - 3 : 0))
		}
		NR > 1 { id[++n] = $1; at[n] = $2; span[n] = $3; gpus[n] = $4; used += $3 * $4 }
		END {
			window = 180000 # 50 h
			copies = int(560 / (used / window) + 0.5)
			if (copies < 1) copies = 1
			for (c = 0; c < copies; c++) for (i = 1; i <= n; i++) {
				for (size = 1; size < gpus[i]; size *= 2);
				least = size / 4 < unit ? unit : size / 4
				most = size * 4 < unit ? unit : size * 4 > 256 ? 256 : size * 4
				one = speed(unit < size * factor ? unit : size * factor) # of a node
				sizes = speeds = ""
				for (k = least; k <= most; k *= 2) {
					sizes = sizes " " k / unit
					speeds = speeds " " sprintf("%.6f", k == unit ? 1 : speed(k < size * 4 ? k : size * 4) / one)
				}
				printf "%s-%d,%d,%s,%d,%.6f,%s,%s\n", id[i], c, (at[i] + c * int(window / copies)) % window, span[i], gpus[i],
					span[i] * speed(gpus[i]) / one, substr(sizes, 2), substr(speeds, 2)
			}
		}' "$1" | sort -t, -k2,2n -s
}

# simulate FOLDER TRACE GPUS FLAGS... simulates a trace for nodes of some GPUs, unless its results are there.
simulate() {
	folder=$out/$1 trace=$out/traces/$2.csv gpus=$3
	shift 3
	[ ! -e "$folder" ] || return 0
	"$lab" simulate --trace "$trace" --gpus-per-node "$gpus" --restart-time 120s --workers 1 --out "$folder" "$@"
}

# each FUNCTION runs a function for each trace.
each() {
	mkdir -p "$out/traces"
	for name in $names; do
		file=$traces/${name}_50h.csv
		[ -e "$out/traces/$name-gpus.csv" ] || overlay "$file" 1 4 > "$out/traces/$name-gpus.csv"
		[ -e "$out/traces/$name-nodes.csv" ] || overlay "$file" 8 4 > "$out/traces/$name-nodes.csv"
		[ -e "$out/traces/$name-requested.csv" ] || overlay "$file" 8 1 > "$out/traces/$name-requested.csv"
	done
	for name in $names; do
		"$1"
	done
}

units() {
	for nodes in nodes requested; do
		simulate "units/$name-$nodes" "$name-$nodes" 8 --nodes 56,80,110 --policy total-time,max-min
	done
	simulate "units/$name-gpus" "$name-gpus" 1 --nodes 448,640,880 --policy total-time,max-min --unit gpu
}

shares() {
	simulate "shares/all-1-$name" "$name-gpus" 1 --nodes 448,640,880 --policy total-time,fifo,srpt,max-min --unit gpu
	for seed in $seeds; do
		for vary in rigid-half rigid-most; do
			simulate "shares/$vary-$seed-$name" "$name-gpus" 1 --nodes 448,640,880 --policy total-time,fifo,srpt,max-min --unit gpu \
				--vary "$vary" --seed "$seed"
		done
	done
}

placement() {
	for placement in none move stay; do
		simulate "placement/0-$placement-$name" "$name-gpus" 1 --nodes 448 --policy total-time --unit gpu \
			--machine-units 8 --placement "$placement"
	done
	for block in 8 16 18; do
		for placement in move stay; do
			simulate "placement/$block-$placement-$name" "$name-gpus" 1 --nodes 448 --policy total-time --unit gpu \
				--machine-units 8 --placement "$placement" --block-machines "$block"
		done
	done
	simulate "placement/18-limits-$name" "$name-gpus" 1 --nodes 448 --policy total-time --unit gpu \
		--machine-units 8 --placement move --block-machines 18 --size-limits
}

damaged() {
	for share in 0.1 0.3; do
		for seed in $seeds; do
			for limits in false true; do
				simulate "damaged/$share-$limits-$seed-$name" "$name-gpus" 1 --nodes 448 --policy total-time --unit gpu \
					--machine-units 8 --damaged "$share" --seed "$seed" --placement move --size-limits="$limits"
			done
		done
	done
}

# common has functions of jq. A cell of a table is the mean of changes, with their range.
common='
def mean: add / length;
def percent: (. * 1000 | round) as $n | if $n == 0 then "0%" else "\(if $n < 0 then "−" else "+" end)\($n | fabs / 10 | floor).\($n | fabs % 10)%" end;
def cell: "\(mean | percent) (\(min | percent) to \(max | percent))";
def digits: (. * 100 | round) as $n | "\($n / 100 | floor).\($n % 100 / 10 | floor)\($n % 10)";
def minutes: . / 60 | round | tostring;
'

# traces_table OUT prints the traces.
traces_table() {
	echo "| trace | copies | jobs | smaller than 8 GPUs | load of 448, 640 and 880 GPUs |"
	echo "|---|--:|--:|--:|---|"
	for name in $names; do
		trace=$1/traces/$name-gpus.csv
		copies=$(awk -F, 'NR > 1 { n = split($1, part, "-"); if (part[n] > most) most = part[n] } END { print most + 1 }' "$trace")
		small=$(awk -F, 'NR > 1 && $4 < 8 { n++ } END { printf "%.0f%%", 100 * n / (NR - 1) }' "$trace")
		jq -r --arg name "$name" --arg copies "$copies" --arg small "$small" "$common"'
			"| `\($name)` | \($copies) | \(.conditions.jobs) | \($small) | \([.conditions.loads[].load | digits] | join(", ")) |"' \
			"$1/units/$name-gpus/summary.json"
	done
}

# units_table OUT prints whole machines and GPUs on the same hardware.
units_table() {
	echo "| GPUs | trace | GPUs as units | machines, all GPUs used | times as long | machines, requested GPUs used | times as long |"
	echo "|--:|---|--:|--:|--:|--:|--:|"
	for pool in 1 2 3; do
		for name in $names; do
			jq -rs --argjson pool "$pool" --arg name "$name" "$common"'
				[.[].runs | map(select(.policy == "total-time")) | sort_by(.nodes)[$pool - 1]] as [$gpus, $nodes, $requested] |
				"| \($gpus.nodes) | `\($name)` | \($gpus.mean_total_s | minutes) | \([$nodes, $requested][] | [(.mean_total_s | minutes), (.mean_total_s / $gpus.mean_total_s | digits)] | join(" | ")) |"' \
				"$1/units/$name-gpus/summary.json" "$1/units/$name-nodes/summary.json" "$1/units/$name-requested/summary.json" |
				awk -F' [|] ' 'NR == 1 { row = $0; sub(/ [|]$/, "", row) } NR == 2 { print row " | " $4 " | " $5 }'
		done
	done
}

# shares_table OUT prints by how much total-time is lower than other policies.
shares_table() {
	echo "| elastic jobs | GPUs | compared with FIFO | with SRPT | with max-min fair share |"
	echo "|---|--:|--:|--:|--:|"
	for vary in all rigid-half rigid-most; do
		for nodes in 448 640 880; do
			jq -rs --arg vary "$vary" --argjson nodes "$nodes" "$common"'
				[.[].runs | map(select(.nodes == $nodes)) | INDEX(.policy)] as $runs |
				def change(policy): [$runs[] | .["total-time"].mean_total_s / .[policy].mean_total_s - 1] | cell;
				{all: "all", "rigid-half": "half", "rigid-most": "one in five"}[$vary] as $elastic |
				"| \($elastic) | \($nodes) | \(change("fifo")) | \(change("srpt")) | \(change("max-min")) |"' "$1/shares/$vary"-*/summary.json
		done
	done
}

# pools_table OUT prints the same for 448 GPUs by trace, as means over the seeds.
pools_table() {
	echo "| trace | SRPT: all | half | one in five | max-min: all | half | one in five |"
	echo "|---|--:|--:|--:|--:|--:|--:|"
	for name in $names; do
		jq -rs --arg name "$name" "$common"'
			[.[].runs | map(select(.nodes == 448)) | INDEX(.policy)] as $runs |
			"| `\($name)` | \([("srpt", "max-min") as $policy | ("gpus", "gpus+rigid-half", "gpus+rigid-most") as $trace |
				[$runs[] | select(.[$policy].trace == "\($name)-\($trace)") | .["total-time"].mean_total_s / .[$policy].mean_total_s - 1] | mean | percent] |
				join(" | ")) |"' "$1"/shares/*-"$name"/summary.json
	done
}

# placement_table OUT prints the moves and the mean JCT by blocks, compared with decisions that are not placed.
placement_table() {
	echo "| machines of a block | placement | mean JCT | moves per job | decisions without a placement |"
	echo "|---|---|--:|--:|--:|"
	for block in 0 8 16 18; do
		for placement in move stay limits; do
			[ "$block" = 18 ] || [ "$placement" != limits ] || continue
			jq -rs --arg block "$block" --arg placement "$placement" "$common"'
				[.[].runs[]] | ([.[] | select(.unplaced == null)] | INDEX(.trace)) as $counts | map(select(.unplaced != null)) |
				def range(text): [(min | text), (max | text)] | unique | join(" to ");
				"| \(if $block == "0" then "no blocks" else $block end) | \(if $placement == "limits" then "`move`, with size limits" else "`\($placement)`" end) | \(map(.mean_total_s / $counts[.trace].mean_total_s - 1) | cell) | \(
					map(.placement_moves) | range(digits)) | \(map(100 * .unplaced / .decisions) | range(round))% |"' \
				"$1"/placement/0-none-*/summary.json "$1/placement/$block-$placement"-*/summary.json
		done
	done
}

# damaged_table OUT prints what size limits save on damaged machines.
damaged_table() {
	echo "| machines that lack GPUs | trace | mean JCT without size limits | with size limits | change | without a placement, without and with | moves per job, without and with |"
	echo "|--:|---|--:|--:|--:|--:|--:|"
	for share in 0.1 0.3; do
		for name in $names; do
			[ -e "$1/damaged/$share-true-3-$name" ] || continue
			jq -rs --arg share "$share" --arg name "$name" "$common"'
				[.[] | .runs[0] + {limited: (.origin.command | contains("--size-limits true"))}] |
				(map(select(.limited)) | sort_by(.seed)) as $limited | (map(select(.limited | not)) | sort_by(.seed)) as $counts |
				def unplaced: map(100 * .unplaced / .decisions) | mean | round;
				def moves: map(.placement_moves) | mean | digits;
				"| \($share | tonumber * 100)% | `\($name)` | \($counts | map(.mean_total_s) | mean | minutes) | \($limited | map(.mean_total_s) | mean | minutes) | \(
					[$limited, $counts] | transpose | map(.[0].mean_total_s / .[1].mean_total_s - 1) | cell) | \($counts | unplaced)%, \($limited | unplaced)% | \(
					$counts | moves), \($limited | moves) |"' "$1/damaged/$share"-*-"$name"/summary.json
		done
	done
}

case ${1-} in
units | shares | placement | damaged)
	lab=$2 traces=$3 out=$4
	each "$1"
	;;
tables)
	for table in traces:units units:units shares:shares pools:shares placement:placement damaged:damaged; do
		[ -d "$2/${table#*:}" ] || continue
		table=${table%:*}
		printf '\n%s\n\n' "$table"
		"${table}_table" "$2"
	done
	;;
*)
	sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
