#!/usr/bin/env bash
# Installs PyTorch where it is missing (Debian, Ubuntu), for the test of a real torchrun in
# make check-kube. It runs as root or through sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
name=torch
. scripts/packages.sh

[ -d /usr/lib/python3/dist-packages/torch ] || install_packages python3-torch
