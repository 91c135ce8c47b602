#!/usr/bin/env bash
# Generates the API's Go code and reference, docs/reference/command-line.md and NOTICE into a temporary
# folder and fails if the files in the checkout differ. The checkout is not touched.
set -euo pipefail
buf=$1
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

"$buf" generate --output "$fresh"
mkdir -p "$fresh/docs/reference"
scripts/flags.sh >"$fresh/docs/reference/command-line.md"
scripts/notice.sh >"$fresh/NOTICE"
stale=0
while IFS= read -r file; do
  diff -u "$file" "$fresh/$file" || stale=1
done < <({ find proto -name '*.pb.go'; cd "$fresh"; find proto -name '*.pb.go'; } | sort -u; printf '%s\n' docs/reference/{api,command-line}.md NOTICE)
if [ "$stale" -ne 0 ]; then
  echo 'generated files are stale; run: make generate' >&2
  exit 1
fi
