#!/usr/bin/env bash
# Builds the programs of a real Kubernetes from the Go modules that scripts/kube pins: etcd,
# the API server, the controller manager, the scheduler, kubectl, JobSet's controller, and
# kwok, which plays the nodes; and the controllers of other kinds of jobs, each from the
# release of its own module. No container engine is needed. About 1,100 CPU seconds
# and 2 GB of memory from nothing, nothing when they are there already.
#
#   kube.sh DIRECTORY    builds into DIRECTORY/bin and puts kwok's stages and what the
#                        controllers need installed beside them, into DIRECTORY/manifests
set -euo pipefail
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/kube"

# What is there is kept as long as what it was built from is the same.
stamp=$out/stamp
inputs=$(cat go.mod go.sum ../kube.sh | sha256sum | cut -d' ' -f1)
exec 9>"$out/lock"
flock 9
[[ -f $stamp && $(<"$stamp") == "$inputs" ]] && exit
rm -f "$stamp"
mkdir -p "$out/bin" "$out/manifests"

version() { go list -m -f '{{.Version}}' "$1"; }
directory() { go list -m -f '{{.Dir}}' "$1"; }

# A server that does not know its version says v0.0.0, and clients misjudge it.
kubernetes=$(version k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kubernetes#v}"
x=k8s.io/component-base/version
flags="-s -w -X $x.gitVersion=$kubernetes -X $x.gitMajor=$major -X $x.gitMinor=$minor -X $x.gitTreeState=clean"

build() { # NAME PACKAGE
  echo "$1 ($2)"
  # One link takes 2 GB, so no more than one program at a time.
  CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$out/bin/$1" "$2"
}
build etcd go.etcd.io/etcd/server/v3
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
build kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
build kubectl k8s.io/kubernetes/cmd/kubectl
build kwok sigs.k8s.io/kwok/cmd/kwok
build jobset sigs.k8s.io/jobset

install -m 644 "$(directory sigs.k8s.io/kwok)/kustomize/stage/node/fast/node-initialize.yaml" "$out/manifests/kwok-node.yaml"

manifests() { # NAME DIRECTORY CRDS WEBHOOKS: what a controller needs installed.
  mkdir -p "$out/manifests/$1/crds"
  # shellcheck disable=SC2086 # CRDS is a pattern.
  install -m 644 "$2"/$3 "$out/manifests/$1/crds"
  install -m 644 "$2/$4" "$out/manifests/$1/webhooks.yaml"
}
manifests jobset "$(directory sigs.k8s.io/jobset)" 'config/components/crd/bases/*.yaml' config/components/webhook/manifests.yaml

# Releases whose client libraries are others than those above: each is built as it is, by
# its own go.mod and go.sum.
flags="-s -w"
while read -r name module package crds webhooks; do
  cd "$(cd / && go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')"
  build "$name" "$package"
  manifests "$name" . "$crds" "$webhooks"
done <<'MODULES'
training-operator github.com/kubeflow/training-operator@v1.8.1 ./cmd/training-operator.v1 manifests/base/crds/*_pytorchjobs.yaml manifests/base/webhook/manifests.yaml
trainer github.com/kubeflow/trainer/v2@v2.2.0 ./cmd/trainer-controller-manager manifests/base/crds/trainer.*.yaml manifests/base/webhook/manifests.yaml
ray-operator github.com/ray-project/kuberay/ray-operator@v1.6.0 . config/crd/bases/*.yaml config/webhook/manifests.yaml
MODULES

echo "$inputs" >"$stamp"
