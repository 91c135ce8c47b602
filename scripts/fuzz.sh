#!/usr/bin/env bash
# Runs every fuzzer of the module for the given number of seconds each.
set -euo pipefail
seconds=$1
cd "$(dirname "$0")/.."

for package in $(go list ./...); do
  for fuzzer in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    echo "== $package $fuzzer"
    go test -run '^$' -fuzz "^$fuzzer\$" -fuzztime "${seconds}s" "$package"
  done
done
