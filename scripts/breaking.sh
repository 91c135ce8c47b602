#!/usr/bin/env bash
# Compares the API with that of the last release and fails where a client of it would
# break.
set -euo pipefail
buf=$1
cd "$(dirname "$0")/.."

if ! release=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null); then
  echo 'breaking: nothing is released yet; skipped'
  exit 0
fi

# An archive rather than buf's own git input, which a shallow clone or a detached
# head would defeat.
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$release" proto buf.yaml | tar -x -C "$old"
"$buf" breaking --against "$old"
