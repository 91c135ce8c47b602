#!/usr/bin/env bash
# Puts the definitions of RayCluster, PyTorchJob and TrainJob, as their Go modules of these
# versions have them, into DIRECTORY/manifests, for tests on a real API server. Their
# controllers are not needed for that.
#
#   crds.sh DIRECTORY
set -euo pipefail
mkdir -p "$1/manifests"
out=$(cd "$1/manifests" && pwd)

copy() { # RESOURCE MODULE PATH
  [[ -f $out/$1-crd.yaml && $(head -1 "$out/$1-crd.yaml") == "# $2" ]] && return
  local directory
  directory=$(cd / && go mod download -json "$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  { echo "# $2" && cat "$directory/$3"; } >"$out/$1-crd.yaml.part"
  mv "$out/$1-crd.yaml.part" "$out/$1-crd.yaml"
}
copy rayclusters github.com/ray-project/kuberay/ray-operator@v1.6.0 config/crd/bases/ray.io_rayclusters.yaml
copy pytorchjobs github.com/kubeflow/training-operator@v1.8.1 manifests/base/crds/kubeflow.org_pytorchjobs.yaml
copy trainjobs github.com/kubeflow/trainer/v2@v2.2.0 manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml
