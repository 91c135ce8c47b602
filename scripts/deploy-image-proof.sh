#!/usr/bin/env bash
# Does what deploy/Dockerfile does after the build, without Docker: in a fresh Debian 13
# it installs the solver packages and copies the static binary, then takes away every
# shell, mounts the file system read-only and runs the server as the image's user, with
# the image's environment and entrypoint. It has CBC, HiGHS and the embedded backend
# each decide the example and prints the versions of the solvers.
#
# It takes root, debootstrap and a Debian archive: the one this machine has its own
# packages from, or DEBIAN_MIRROR. Packages are kept in DEBOOTSTRAP_CACHE, if set.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "image: $* [${SECONDS}s]"; }
fail() {
  echo "image: $*" >&2
  exit 1
}

# The mounts below live in a namespace of their own, so that they end with the script.
if [ -z "${IN_NAMESPACE:-}" ]; then
  [ "$(id -u)" -eq 0 ] || fail 'building a file system takes root'
  command -v debootstrap >/dev/null || fail 'debootstrap is missing: apt-get install debootstrap'
  IN_NAMESPACE=yes exec unshare --mount --pid --fork --kill-child scripts/deploy-image-proof.sh
fi

# What the image is, from the Dockerfile.
dockerfile=deploy/Dockerfile
packages=$(sed -n 's/^ARG SOLVER_PACKAGES="\(.*\)"$/\1/p' $dockerfile)
user=$(sed -n 's/^USER \([0-9]*:[0-9]*\)$/\1/p' $dockerfile)
mapfile -t environment < <(sed -n 's/^ENV \([A-Z_]*=.*\)$/\1/p' $dockerfile)
entrypoint=$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]$/\1/p' $dockerfile)
grep -q '^ARG RUNTIME_IMAGE=debian:trixie-slim$' $dockerfile || fail "$dockerfile is not based on Debian 13"
[ -n "$packages" ] && [ -n "$user" ] && [ -n "$entrypoint" ] || fail "cannot read $dockerfile"

mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' | head -n 1)}
[ -n "$mirror" ] || fail 'found no Debian archive among the sources of apt; name one in DEBIAN_MIRROR'

work=$(mktemp -d)
image=$work/image
server=
end() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
  # Nothing may stay mounted in what is removed.
  for mount in proc tmp .; do umount --lazy "$image/$mount" 2>/dev/null || true; done
  rm -rf --one-file-system "$work"
}
trap end EXIT

make --no-print-directory build BIN="$work/elastalloc"
say "debootstrap of Debian 13 from $mirror"
debootstrap --variant=minbase ${DEBOOTSTRAP_CACHE:+--cache-dir="$DEBOOTSTRAP_CACHE"} \
  trixie "$image" "$mirror" >"$work/debootstrap.log" 2>&1 || {
  tail -n 20 "$work/debootstrap.log" >&2
  fail 'debootstrap failed'
}
mount --bind "$image" "$image"
mount -t proc proc "$image/proc"

say "installing $packages"
# shellcheck disable=SC2086 # A list of packages.
chroot "$image" env DEBIAN_FRONTEND=noninteractive \
  apt-get install --yes -qq --no-install-recommends $packages >"$work/install.log" 2>&1 || {
  tail -n 20 "$work/install.log" >&2
  fail 'installing the packages failed'
}
install -D -m 755 "$work/elastalloc" "$image$entrypoint"
install -D -m 644 examples/snapshot.json "$image/usr/share/elastalloc/snapshot.json"
size=$(du -sh --one-file-system "$image" | cut -f 1)

say 'taking away the shells, mounting read-only with a writable /tmp'
rm -f "$image"/usr/bin/{sh,bash,rbash,dash}
mount -t tmpfs -o size=64M,mode=1777,nosuid,nodev tmpfs "$image/tmp"
mount -o remount,bind,ro "$image"

# What follows runs as the image's user, with nothing of this machine's environment.
inside=(
  chroot --userspec="$user" "$image"
  /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin "${environment[@]}"
)
"${inside[@]}" /bin/sh -c true 2>/dev/null && fail 'there still is a shell'
"${inside[@]}" touch /usr/local/proof 2>/dev/null && fail 'the file system can be written to'

"${inside[@]}" cbc -quit </dev/null | sed -n 's/^Version: */image: CBC /p' | grep . || fail 'CBC does not start'
"${inside[@]}" highs --version </dev/null | sed -n 's/^HiGHS version \([^ ]*\).*/image: HiGHS \1/p' | grep . || fail 'HiGHS does not start'

"${inside[@]}" "$entrypoint" serve --listen=127.0.0.1:0 --admin-listen=127.0.0.1:0 \
  --backends=exact,cbc,highs --drain-delay=0s 2>"$work/server.log" &
server=$!
address=
for _ in $(seq 200); do
  address=$(sed -n 's/.*"msg":"serving".*"address":"\([^"]*\)".*/\1/p' "$work/server.log")
  [ -z "$address" ] || break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
[ -n "$address" ] || {
  cat "$work/server.log" >&2
  fail 'the server does not serve'
}
# The process is the image's user and holds no capability.
owner=$(stat -c '%u:%g' "$image/proc/$server")
[ "$owner" = "$user" ] || fail "the server runs as $owner"
grep -q '^CapEff:[[:space:]]*0*$' "$image/proc/$server/status" || fail 'the server holds capabilities'

for backend in exact cbc highs; do
  "${inside[@]}" "$entrypoint" allocate --server "$address" --file /usr/share/elastalloc/snapshot.json \
    --backend "$backend" --budget 20s >"$work/decision" || fail "no decision from $backend"
  decided=$(sed -n 's/^decided by *//p' "$work/decision")
  case $decided in
  "$backend in "*) say "decided by $decided" ;;
  *) fail "$backend was asked, and it was decided by $decided" ;;
  esac
done

kill -TERM "$server"
wait "$server" || {
  cat "$work/server.log" >&2
  fail 'the server did not exit with status 0'
}
server=
say "proven: $size, user $user, no shell, read-only but /tmp"
