#!/usr/bin/env bash
# Starts a server, has it decide a request through the command line, and stops it.
#
#   scripts/demo.sh BINARY REQUEST
set -euo pipefail
log=$(mktemp)
"$1" serve --listen=127.0.0.1:0 --admin-listen=127.0.0.1:0 --drain-delay=0s 2>"$log" &
server=$!
stop() {
  local status=$?
  kill "$server" 2>/dev/null || true
  wait "$server" || status=1
  rm "$log"
  exit "$status"
}
trap stop EXIT
address=
until [ "$address" ]; do
  kill -0 "$server" 2>/dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.05
  address=$(sed -n 's/.*"msg":"serving","address":"\([^"]*\)".*/\1/p' "$log")
done
printf '$ elastalloc serve --listen %s &\n$ elastalloc allocate --server %s --file %s\n\n' "$address" "$address" "$2"
"$1" allocate --server "$address" --file "$2"
