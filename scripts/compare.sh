#!/bin/sh
# Compares the CPU time of the exact backend at two commits: with teams, node types or size limits alone. Needs git, go and HiGHS.
#
#   scripts/compare.sh OLD NEW [RUNS]  print the smallest CPU time of RUNS alternating runs, and the ratio NEW / OLD
#
# OLD and NEW are commits. RUNS is 7 by default. Only benchmarks that exist at both commits are printed.
set -eu

old=$1 new=$2 runs=${3:-7}
benchmarks='BenchmarkGroups/jobs=1000$/nodes=4000/teams=40/departments=8/exact'
benchmarks=$benchmarks'|BenchmarkNodeTypes/types=3/nodes=512/jobs=1000/^(cold|warm)$'
benchmarks=$benchmarks'|BenchmarkSizeLimits/jobs=(300|1000)$/units=(432|900)x8/block=0/damaged/^(new|running)$'

scratch=$(mktemp -d)
clean() {
	for side in old new; do
		git worktree remove --force "$scratch/$side" || :
	done
	rm -rf "$scratch"
}
trap clean EXIT

# build COMMIT SIDE builds the benchmarks of a commit.
build() {
	git worktree add --quiet --detach "$scratch/$2" "$1"
	(cd "$scratch/$2" && go test -c -o "$scratch/$2.test" ./solver/exact)
}
build "$old" old
build "$new" new
PATH="$PWD/.tools/bin:$PATH" # The benchmarks look for HiGHS, which decides nothing in those that are compared.
for _ in $(seq "$runs"); do
	for side in old new; do
		(cd "$scratch/$side/solver/exact" && "$scratch/$side.test" -test.run '^$' -test.bench "$benchmarks" -test.benchtime 1x) |
			sed "s/^/$side /"
	done
done | awk '
	/Benchmark/ {
		for (n = 4; n <= NF; n++)
			if ($n == "ms-median" || $n == "cpu-ns/op") {
				ms = $n == "ms-median" ? $(n-1) : $(n-1) / 1e6
				if (!(($1, $2) in least) || ms < least[$1, $2]) least[$1, $2] = ms
				if ($1 == "new" && !($2 in seen)) { seen[$2]; names[++count] = $2 }
			}
	}
	END {
		for (n = 1; n <= count; n++)
			if (("old", names[n]) in least)
				printf "%-72s %9.3f ms %9.3f ms %6.2f\n", names[n], least["old", names[n]], least["new", names[n]],
					least["new", names[n]] / least["old", names[n]]
	}'
