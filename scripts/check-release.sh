#!/usr/bin/env bash
# Builds a release twice, of a clone each in a folder of its own and the second time with
# an empty build cache, and fails where a byte differs. Then it runs what is in it: the
# binaries of this platform, the checksums, the charts.
set -euo pipefail
cd "$(dirname "$0")/.."
export HELM=${HELM:-$PWD/.tools/bin/helm}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "check-release: $*"; }
fail() {
  say "$*" >&2
  exit 1
}

for build in one two/in/another/folder; do
  git clone --quiet --no-hardlinks . "$work/$build"
  cache=$(go env GOCACHE)
  [ "$build" = one ] || cache=$work/cache
  (cd "$work/$build" && GOCACHE=$cache scripts/release.sh "$work/$(basename "$build").out")
done
diff --recursive "$work/one.out" "$work/folder.out" || fail 'two builds of the same commit differ'

cd "$work/one.out"
sha256sum --check --quiet --strict SHA256SUMS
archive=$(ls elastalloc_*_"$(go env GOOS)_$(go env GOARCH)".tar.gz)
folder=$(basename "$archive" .tar.gz)
mkdir "$work/empty"
tar --extract --gzip --file "$archive" --directory "$work/empty"
cd "$work/empty/$folder"
# As on a machine without a toolchain: nothing of this one's environment, and no program in reach.
alone() { env -i PATH=/nonexistent HOME="$work/empty" "./$@"; }
for program in elastalloc elastalloc-lab elastalloc-controller; do
  [ -x "$program" ] || fail "$archive has no $program"
  ! ldd "$program" >/dev/null 2>&1 || fail "$program is not static"
  alone "$program" --version
done
alone elastalloc allocate -f examples/busy.json | grep '^decided by' || fail 'the unpacked elastalloc does not decide'
for file in LICENSE NOTICE THIRD_PARTY_LICENSES man/man1/elastalloc{,-lab}.1 completions/elastalloc{,-lab}.{bash,zsh,fish} \
  deploy/systemd/elastalloc.service $(sed -n '/--from/d; s/^COPY \(.*\) [^ ]*$/\1/p' deploy/Dockerfile.release); do
  [ -s "$file" ] || fail "$archive has no $file"
done
bash -n completions/elastalloc.bash completions/elastalloc-lab.bash
# The images, whose files a container engine would unpack, as their user.
for image in "$work/one.out"/elastalloc*-image_*_linux_"$(go env GOARCH)".tar; do
  [ -s "$image" ] || fail 'there are no images'
  program=$(basename "$image" | sed 's/-image_.*//')
  mkdir -p "$work/$program/root"
  tar --extract --file "$image" --directory "$work/$program"
  for layer in $(jq -r '.[0].Layers[]' "$work/$program/manifest.json"); do
    tar --extract --gzip --file "$work/$program/$layer" --directory "$work/$program/root"
  done
  [ "$(id -u)" -eq 0 ] || { say "note: only root can run the image of $program" && continue; }
  env -i "$(command -v chroot)" --userspec=65532:65532 "$work/$program/root" "/usr/local/bin/$program" --version
done
if [ "$(id -u)" -eq 0 ]; then
  env -i "$(command -v chroot)" --userspec=65532:65532 "$work/elastalloc/root" /usr/local/bin/elastalloc allocate -f - <examples/busy.json |
    grep '^decided by' || fail 'the server does not decide in its image'
fi

cd "$work/one.out"
tar --list --gzip --file elastalloc_*_docs.tar.gz | grep '/docs/start/quickstart.html$' >/dev/null || fail 'there is no documentation'
for chart in *.tgz; do
  "$HELM" show all "$chart" >/dev/null || fail "$chart cannot be read as a chart"
done
say "two builds are equal: SHA256SUMS and its $(wc -l <SHA256SUMS) files"
