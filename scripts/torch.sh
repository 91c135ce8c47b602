#!/usr/bin/env bash
# Installs PyTorch where it is missing (Debian, Ubuntu), for the test of a real torchrun in
# make check-kube and for the testbed. It runs as root or through sudo. Without OpenBLAS, PyTorch
# multiplies matrices with the reference BLAS, which is 15 times slower.
set -euo pipefail
cd "$(dirname "$0")/.."
name=torch
. scripts/packages.sh

[ -d /usr/lib/python3/dist-packages/torch ] && compgen -G '/usr/lib/*/openblas-pthread' >/dev/null ||
  install_packages python3-torch libopenblas0-pthread
