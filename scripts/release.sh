#!/usr/bin/env bash
# Builds what a release consists of, in a folder that must not exist: for each platform
# an archive of the static binaries and what their installation needs, for Linux the container
# images, the charts, the Python wheel, the documentation as a static site, a bill of materials and the checksums. The same commit gives the same bytes, anywhere.
#
#   scripts/release.sh FOLDER
#
# PLATFORMS lists the platforms, HELM names helm where it is not in .tools/bin. The
# version is that of git, as the Go command stamps it: the tag, or one made of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
helm=${HELM:-.tools/bin/helm}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C CGO_ENABLED=0 GOFLAGS=-mod=readonly
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)

say() { echo "release: $*"; }
fail() {
  say "$*" >&2
  exit 1
}
[ ! -e "$out" ] || fail "$out exists"
[ -z "$(git status --porcelain)" ] || say 'note: the checkout has uncommitted changes; do not publish this'
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# pack makes an archive of a folder that depends on nothing but its content.
pack() { # archive, parent, folder
  tar --create --directory "$2" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$3" | gzip -9 --no-name >"$1"
}

build() { # folder
  go build -buildvcs=true -trimpath -ldflags '-s -w' -o "$1/" ./cmd/elastalloc
  (cd lab && go build -buildvcs=true -trimpath -ldflags '-s -w' -o "$1/" ./cmd/elastalloc-lab)
  (cd kube && go build -buildvcs=true -trimpath -ldflags '-s -w' -o "$1/" ./cmd/elastalloc-controller)
}

# The manual pages, the completions and the files to install are the same on every platform.
mkdir -p "$work"/{man/man1,completions}
go run ./cmd/elastalloc man "$work/man/man1"
(cd lab && go run ./cmd/elastalloc-lab man "$work/man/man1")

for shell in bash zsh fish; do
  go run ./cmd/elastalloc completion $shell >"$work/completions/elastalloc.$shell"
  (cd lab && go run ./cmd/elastalloc-lab completion $shell >"$work/completions/elastalloc-lab.$shell")
done
cp --parents deploy/{Dockerfile.release,runbook.md,runbook-controller.md} deploy/systemd/elastalloc.service deploy/prometheus/prometheus.yml \
  deploy/helm/elastalloc*/files/* examples/busy.json "$work"

scripts/notice.sh texts cmd/elastalloc lab/cmd/elastalloc-lab kube/cmd/elastalloc-controller >"$work/THIRD_PARTY_LICENSES"

version=
for platform in $platforms; do
  export GOOS=${platform%/*} GOARCH=${platform#*/}
  say "$platform"
  build "$work/bin"
  # As `elastalloc version` states, which a binary of another platform cannot.
  version=$(go version -m "$work/bin/elastalloc" | awk '$1 == "mod" {print $3}')
  [ -n "$version" ] && [ "$version" != '(devel)' ] || fail 'the binaries have no version: build them in a git checkout'
  name=elastalloc_${version#v}_${GOOS}_$GOARCH
  mkdir "$work/$name"
  mv "$work/bin"/* "$work/$name"
  cp --recursive LICENSE NOTICE README.md CHANGELOG.md "$work"/{man,completions,deploy,examples,THIRD_PARTY_LICENSES} "$work/$name"
  env -u GOOS -u GOARCH scripts/sbom.sh elastalloc "$work/$name"/elastalloc{-controller,-lab,} >"$out/$name.sbom.json"
  pack "$out/$name.tar.gz" "$work" "$name"
  [ "$GOOS" = linux ] || continue
  (cd deploy/checks && env -u GOOS -u GOARCH go run ./image "$work/$name" "$GOARCH" "$SOURCE_DATE_EPOCH" "$out")
  for program in elastalloc elastalloc-controller; do
    image=$program-image_${version#v}_${GOOS}_$GOARCH
    env -u GOOS -u GOARCH scripts/sbom.sh "$program-image" "$work/$name/$program" >"$out/$image.sbom.json"
  done
done
unset GOOS GOARCH

# Helm writes the time of day into its archives. A tag, not a version made of a commit, is
# the version of the charts as well.
for chart in deploy/helm/*/; do
  case $version in
  *-*) ;;
  *) grep -q "^version: ${version#v}\$" "$chart/Chart.yaml" && grep -q "^appVersion: ${version#v}\$" "$chart/Chart.yaml" ||
    fail "$chart is not of version ${version#v}" ;;
  esac
  "$helm" package "$chart" --destination "$work/charts" >/dev/null
done
for package in "$work"/charts/*.tgz; do
  mkdir "$work/chart"
  tar --extract --touch --file "$package" --directory "$work/chart"
  pack "$out/$(basename "$package")" "$work/chart" "$(ls "$work/chart")"
  rm -r "$work/chart"
done

scripts/python.sh "$out"

scripts/site.sh "$work/elastalloc_${version#v}_docs"
pack "$out/elastalloc_${version#v}_docs.tar.gz" "$work" "elastalloc_${version#v}_docs"

cd "$out"
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
say "$version in $out:"
ls -l | awk 'NR > 1 {print "  " $5, $9}'
