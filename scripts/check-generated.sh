#!/usr/bin/env bash
# Generates the API's Go code into a temporary folder and fails where the code
# beside the API differs from it. The checkout is not touched.
set -euo pipefail
buf=$1
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

"$buf" generate --output "$fresh"
stale=0
while IFS= read -r file; do
  diff -u "$file" "$fresh/$file" || stale=1
done < <({ find proto -name '*.pb.go'; cd "$fresh"; find proto -name '*.pb.go'; } | sort -u)
if [ "$stale" -ne 0 ]; then
  echo 'generated code is not what the API says; run: make generate' >&2
  exit 1
fi
