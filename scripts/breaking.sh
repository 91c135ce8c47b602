#!/usr/bin/env bash
# Compares the API with that of main and fails where a client of main would break.
# On main itself it is compared with main's previous commit.
set -euo pipefail
buf=$1
cd "$(dirname "$0")/.."

if ! base=$(git rev-parse --verify --quiet main || git rev-parse --verify --quiet origin/main); then
  echo 'breaking: no branch main to compare with; skipped'
  exit 0
fi
if [ "$base" = "$(git rev-parse HEAD)" ] && git diff --quiet HEAD -- proto; then
  base=$(git rev-parse --verify --quiet HEAD~1 || true)
fi
if [ -z "$base" ] || ! git cat-file -e "$base:proto" 2>/dev/null; then
  echo 'breaking: main has no API yet; skipped'
  exit 0
fi

# An archive rather than buf's own git input, which a shallow clone or a detached
# head would defeat.
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$base" proto buf.yaml | tar -x -C "$old"
"$buf" breaking --against "$old"
