#!/usr/bin/env bash
# Runs every fuzzer of modules, given by their folders, for the given time each, as go test has it: 30s, or
# 1000x for a number of inputs. A number never ends on a deadline, which the fuzzing
# engine now and then reports as a failure. Interesting inputs are not made smaller for
# long: by default that may take a minute each, and a fuzzer of a running server is slow.
set -euo pipefail
time=$1
shift
cd "$(dirname "$0")/.."
# One of them is among the fault tests, which are skipped otherwise.
export ELASTALLOC_TESTS=faults

for module; do
  for package in $(go -C $module list ./...); do
    for fuzzer in $(go -C $module test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
      echo "== $package $fuzzer"
      go -C $module test -run '^$' -fuzz "^$fuzzer\$" -fuzztime "$time" -fuzzminimizetime 20x "$package"
    done
  done
done
