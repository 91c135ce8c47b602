#!/usr/bin/env bash
# Builds the programs of a real Kubernetes from the Go modules that scripts/kube pins, without a
# container engine: etcd, the API server, the controller manager, the scheduler, kubectl, and kwok,
# which plays the nodes. They take about 700 CPU seconds and 2 GB of memory from nothing.
#
#   kube.sh DIRECTORY                 builds what is missing into DIRECTORY/bin
#   kube.sh DIRECTORY with-operators  and JobSet's controller and those of other kinds of jobs, each
#                                     from the release of its own module: about 1,200 CPU seconds
#
# What a controller needs installed is put into DIRECTORY/manifests.
set -euo pipefail
mkdir -p "$1/bin" "$1/manifests" "$1/stamps"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
compile=$PWD/compile.sh
cd kube
exec 9>"$out/lock"
flock 9

inputs=$(cat go.mod go.sum ../kube.sh | sha256sum | cut -d' ' -f1)
# What is there is kept as long as what it was built from is the same.
stands() { [[ -f $out/stamps/$1 && $(<"$out/stamps/$1") == "$inputs" ]]; } # NAME

version() { go list -m -f '{{.Version}}' "$1"; }
directory() { go list -m -f '{{.Dir}}' "$1"; }

# A server that does not know its version reports v0.0.0, and clients misjudge it.
kubernetes=$(version k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kubernetes#v}"
x=k8s.io/component-base/version
flags="-s -w -X $x.gitVersion=$kubernetes -X $x.gitMajor=$major -X $x.gitMinor=$minor -X $x.gitTreeState=clean"

build() { # NAME PACKAGE
  echo "$1: compiling what of its $(go list -deps "$2" | wc -l) packages is not in Go's cache"
  # One link takes 2 GB, so no more than one program at a time.
  CGO_ENABLED=0 "$compile" "$1" go build -v -trimpath -ldflags "$flags" -o "$out/bin/$1" "$2"
}

manifests() { # NAME DIRECTORY CRDS WEBHOOKS: what a controller needs installed.
  mkdir -p "$out/manifests/$1/crds"
  # shellcheck disable=SC2086 # CRDS is a pattern.
  install -m 644 "$2"/$3 "$out/manifests/$1/crds"
  install -m 644 "$2/$4" "$out/manifests/$1/webhooks.yaml"
}

while read -r name package; do
  stands "$name" && continue
  build "$name" "$package"
  echo "$inputs" >"$out/stamps/$name"
done <<'PROGRAMS'
etcd go.etcd.io/etcd/server/v3
kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
kubectl k8s.io/kubernetes/cmd/kubectl
kwok sigs.k8s.io/kwok/cmd/kwok
PROGRAMS
install -m 644 "$(directory sigs.k8s.io/kwok)/kustomize/stage/node/fast/node-initialize.yaml" "$out/manifests/kwok-node.yaml"
[[ ${2-} == with-operators ]] || exit 0

if ! stands jobset; then
  build jobset sigs.k8s.io/jobset
  manifests jobset "$(directory sigs.k8s.io/jobset)" 'config/components/crd/bases/*.yaml' config/components/webhook/manifests.yaml
  echo "$inputs" >"$out/stamps/jobset"
fi
# Releases whose client libraries are others than those above: each is built as it is, by
# its own go.mod and go.sum.
flags="-s -w"
while read -r name module package crds webhooks; do
  stands "$name" && continue
  cd "$(cd / && go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')"
  if [[ $name == kueue ]]; then
    # It needs a certificate for its metrics in a folder of the machine, though they are off.
    rm -rf "$out/kueue" && cp -R --no-preserve=mode . "$out/kueue" && cd "$out/kueue"
    sed -i 's|"/etc/kueue/metrics/certs"|filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")|' cmd/kueue/main.go
  fi
  build "$name" "$package"
  manifests "$name" . "$crds" "$webhooks"
  rm -rf "$out/kueue"
  echo "$inputs" >"$out/stamps/$name"
done <<'MODULES'
ray-operator github.com/ray-project/kuberay/ray-operator@v1.6.0 . config/crd/bases/*.yaml config/webhook/manifests.yaml
kueue sigs.k8s.io/kueue@v0.19.2 ./cmd/kueue config/components/crd/bases/*.yaml config/components/webhook/manifests.yaml
training-operator github.com/kubeflow/training-operator@v1.8.1 ./cmd/training-operator.v1 manifests/base/crds/*_pytorchjobs.yaml manifests/base/webhook/manifests.yaml
trainer github.com/kubeflow/trainer/v2@v2.2.0 ./cmd/trainer-controller-manager manifests/base/crds/trainer.*.yaml manifests/base/webhook/manifests.yaml
MODULES
