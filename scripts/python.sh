#!/usr/bin/env bash
# Builds the Python package, stubs and types included, as a wheel, without network: from
# the API with Debian's protoc and its plugin for gRPC, which it installs where they are
# missing.
#
#   scripts/python.sh FOLDER
#
# The wheel goes to FOLDER and replaces older ones. Version and times are those of the commit, so that the same
# commit gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
name=python
. scripts/packages.sh
out=$1

if ! command -v protoc >/dev/null || ! command -v grpc_python_plugin >/dev/null ||
  ! [ -e /usr/include/google/protobuf/duration.proto ] || ! /usr/bin/python3 -c 'import grpc' 2>/dev/null; then
  command -v apt-get >/dev/null ||
    fail 'needs protoc, grpc_python_plugin, the protos of protobuf and grpcio; install them, as this script does on Debian'
  install_packages protobuf-compiler protobuf-compiler-grpc libprotobuf-dev python3-grpcio
fi

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# v0.1.0 is 0.1.0, and a commit after it 0.1.0.post3+g1234abc, as Python writes it.
described=$(git describe --tags --match 'v[0-9]*' 2>/dev/null || echo "v0.0.0-$(git rev-list --count HEAD)-g$(git rev-parse --short=7 HEAD)")
version=$(sed -E 's/^v//; s/-([0-9]+)-g([0-9a-f]+)$/.post\1+g\2/' <<<"$described")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r python/elastalloc "$work/elastalloc"
cp client/service_config.json "$work/elastalloc/service_config.json"
generate() { # protos
  protoc -I proto -I /usr/include --python_out="$1" --pyi_out="$1" "${@:2}"
}
generate "$work" elastalloc/v1/allocator.proto
protoc -I proto -I /usr/include --grpc_python_out="$work" \
  --plugin=protoc-gen-grpc_python="$(command -v grpc_python_plugin)" elastalloc/v1/allocator.proto
touch "$work/elastalloc/v1/__init__.py"
# google.rpc is the package googleapis-common-protos; where that is missing, ours will do.
mkdir -p "$work/elastalloc/_google"
generate "$work/elastalloc/_google" google/rpc/status.proto
mv "$work/elastalloc/_google/google/rpc/"* "$work/elastalloc/_google/"
rm -r "$work/elastalloc/_google/google"
touch "$work/elastalloc/_google/__init__.py"
sed -i -E 's/^from google\.rpc import (.*)$/try:\n    from google.rpc import \1\nexcept ImportError:\n    from elastalloc._google import \1/' \
  "$work/elastalloc/v1/allocator_pb2.py"
find "$work" -name __pycache__ -prune -exec rm -r {} +
rm -f "$out"/elastalloc-*-py3-none-any.whl
/usr/bin/python3 python/wheel.py "$work" "$version" "$out"
