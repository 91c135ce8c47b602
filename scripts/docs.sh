#!/usr/bin/env bash
# Installs the programs that the commands of the documentation need and that are missing
# (Debian, Ubuntu), for make docs and make site. It runs as root or through sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
name=docs
. scripts/packages.sh

missing=()
# need PROGRAM PACKAGE
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need jq jq
need zstdcat zstd
need curl curl
need openssl openssl
need hugo hugo
need nginx nginx-light
[ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || missing+=(libnginx-mod-stream)
need slurmctld slurmctld
need slurmd slurmd
need scontrol slurm-client
[ ${#missing[@]} -gt 0 ] || exit 0

install_packages "${missing[@]}"
