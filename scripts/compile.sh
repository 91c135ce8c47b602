#!/usr/bin/env bash
# Runs a go build or install, which may take minutes from nothing, and shows how far it is: a
# line for every 100 packages compiled, and what it took.
#
#   compile.sh NAME go build -v …
set -euo pipefail
name=$1
shift
TIMEFORMAT="$name: %U CPU seconds, %R seconds"
# -v names each package.
time "$@" 2>&1 | awk -v name="$name" '/^[^ :]+$/ { if (++n % 100 == 0) print "  " name ": " n " compiled"; fflush(); next } { print; fflush() }'
