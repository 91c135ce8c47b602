#!/usr/bin/env bash
# Measures a server under load: ghz sends it the same snapshot again and again,
# over a connection per client. Prints a table in Markdown. Linux only.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$1 ghz=$2 duration=$3

work=$(mktemp -d)
server=
stop() { [ -z "$server" ] || kill "$server" 2>/dev/null || true; wait; server=; }
trap 'stop; rm -rf "$work"' EXIT

# request JOBS NODES prints a request of jobs of very different lengths, some running.
request() {
  awk -v jobs="$1" -v nodes="$2" '
    function random() { x = (x * 16807) % 2147483647; return x / 2147483647 }
    BEGIN {
      x = jobs + nodes; free = nodes
      printf "{\"snapshot\":{\"totalNodes\":%d,\"jobs\":[", nodes
      for (i = 0; i < jobs; i++) {
        eta = 1 + int(3600 * exp(1.5 * sqrt(-2 * log(random())) * cos(6.2831853 * random())))
        held = 2 ^ int(4 * random())
        if (random() > 0.7 || held > free) held = 0
        free -= held
        printf "%s{\"id\":\"training-%d\",\"remainingEta\":\"%ds\",\"currentNodes\":%d}", i ? "," : "", i, eta, held
      }
      print "]}}"
    }'
}

# start FLAGS starts a server at $address.
start() {
  # shellcheck disable=SC2086 # Several words are meant.
  "$binary" serve --listen=127.0.0.1:0 --admin-listen=127.0.0.1:0 --drain-delay=0s ${SERVE_FLAGS:-} "$@" 2>"$work/log" &
  server=$!
  until address=$(sed -n 's/.*"msg":"serving","address":"\([^"]*\)".*/\1/p' "$work/log") && [ -n "$address" ]; do sleep 0.1; done
}

# ticks prints the CPU time that the server has spent, in clock ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }

# measure FILE CLIENTS prints a row of figures.
measure() {
  local before
  before=$(ticks)
  "$ghz" --insecure --call=elastalloc.v1.AllocatorService.Allocate --data-file="$1" --concurrency="$2" --connections="$2" \
    --duration="$duration" --duration-stop=wait --timeout=10s --format=summary "$address" >"$work/report"
  awk -v cpu="$(($(ticks) - before))" -v hz="$(getconf CLK_TCK)" '
    $1 == "Total:" { seconds = $2 / ($3 == "ms" ? 1000 : 1) }
    $1 == "50" && $2 == "%" { p50 = $4 " " $5 }
    $1 == "99" && $2 == "%" { p99 = $4 " " $5 }
    $1 ~ /^\[/ { count[$1] = $2 }
    END {
      ok = count["[OK]"]
      printf "%.0f | %s | %s | %.2f ms | %d |\n", ok / seconds, p50, p99, cpu / hz * 1000 / ok, count["[ResourceExhausted]"]
    }' "$work/report"
}

echo "$(nproc) cores, shared by server and load generator; $duration a row."
echo
echo '| snapshot | clients | decisions/s | p50 | p99 | CPU of a decision | turned away |'
echo '|---|---|---|---|---|---|---|'
start
for size in '40 70' '1000 1500'; do
  # shellcheck disable=SC2086 # Two words are meant.
  request $size >"$work/request.json"
  for clients in 1 16 256; do
    echo "| ${size/ / jobs / } nodes | $clients | $(measure "$work/request.json" "$clients")"
  done
done
stop

# As many clients as the server lets in, and as many again, which call again at once.
request 10000 10000 >"$work/request.json"
start --max-jobs=10000 --max-inflight=4 --max-queue=64
row=$(measure "$work/request.json" 136)
echo
echo "136 clients of 10,000 jobs, --max-inflight=4 --max-queue=64: $row"
grep VmHWM "/proc/$server/status" | awk '{ printf "peak resident memory %.0f MB\n", $2 / 1000 }'
