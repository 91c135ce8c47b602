#!/usr/bin/env bash
# Does what deploy/Dockerfile does after the build, without Docker, for both images: the
# default one, which is the static binary and next to nothing else, and, in a fresh
# Debian 13 from which every shell is taken away, the one with CBC and HiGHS. It mounts the
# file system read-only and runs the server as the image's user, with the image's
# environment and entrypoint, has each backend decide the example and prints the versions
# of the solvers. Of deploy/Dockerfile.controller it runs the controller, which reads a
# configuration and a kubeconfig and finds no cluster.
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

# What the images are, from the Dockerfile. Both have the same user and entrypoint.
dockerfile=deploy/Dockerfile
only() { # pattern: the one value that the Dockerfile has for it
  local values
  mapfile -t values < <(sed -n "s/^$1\$/\\1/p" $dockerfile | sort -u)
  [ "${#values[@]}" -eq 1 ] || fail "$dockerfile has ${#values[@]} values of $1"
  echo "${values[0]}"
}
packages=$(only 'ARG SOLVER_PACKAGES="\(.*\)"')
user=$(only 'USER \([0-9]*:[0-9]*\)')
environment=$(only 'ENV \([A-Z_]*=.*\)')
entrypoint=$(only 'ENTRYPOINT \["\(.*\)"\]')
only '\(ARG RUNTIME_IMAGE=debian:trixie-slim@sha256:[0-9a-f]*\)' >/dev/null
[ "$(sed -n 's/^FROM \([^ ]*\).*/\1/p' $dockerfile | tail -n 1)" = scratch ] || fail 'the default image has a base'

mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' | head -n 1)}
[ -n "$mirror" ] || fail 'found no Debian archive among the sources of apt; name one in DEBIAN_MIRROR'

work=$(mktemp -d)
image=
server=
close_image() {
  [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
  # Nothing may stay mounted in what is removed.
  for mount in proc tmp .; do umount --lazy "$image/$mount" 2>/dev/null || true; done
}
end() {
  [ -z "$image" ] || close_image
  rm -rf --one-file-system "$work"
}
trap end EXIT

# inside runs a program as the image's user, with nothing of this machine's environment.
inside() { env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin "$@"; }

# prove runs the image in $image, whose file system is complete: name, environment, backends.
prove() {
  local name=$1 variables=$2 backends=$3 size address owner decided
  install -D -m 755 "$work/elastalloc" "$image$entrypoint"
  install -D -m 644 examples/snapshot.json "$image/usr/share/elastalloc/snapshot.json"
  mkdir -p "$image/proc" "$image/tmp"
  size=$(du -sh --one-file-system "$image" | cut -f 1)
  mount --bind "$image" "$image"
  mount -t proc proc "$image/proc"
  mount -t tmpfs -o size=64M,mode=1777,nosuid,nodev tmpfs "$image/tmp"
  mount -o remount,bind,ro "$image"
  inside chroot --userspec="$user" "$image" /bin/sh -c true 2>/dev/null && fail 'there is a shell'
  touch "$image/usr/proof" 2>/dev/null && fail 'the file system can be written to'

  # shellcheck disable=SC2086 # A list of variables, which may be empty.
  env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin $variables chroot --userspec="$user" "$image" "$entrypoint" \
    serve --listen=127.0.0.1:0 --admin-listen=127.0.0.1:0 --backends="$backends" --drain-delay=0s 2>"$work/server.log" &
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
  # The process is the image's user and has no capability.
  owner=$(stat -c '%u:%g' "$image/proc/$server")
  [ "$owner" = "$user" ] || fail "the server runs as $owner"
  grep -q '^CapEff:[[:space:]]*0*$' "$image/proc/$server/status" || fail 'the server holds capabilities'
  if grep -q '"level":"\(WARN\|ERROR\)"' "$work/server.log"; then
    cat "$work/server.log" >&2
    fail 'the server complains'
  fi
  for backend in ${backends//,/ }; do
    inside chroot --userspec="$user" "$image" "$entrypoint" allocate --server "$address" \
      --file /usr/share/elastalloc/snapshot.json --backend "$backend" --budget 20s >"$work/decision" || fail "no decision from $backend"
    decided=$(sed -n 's/^decided by *//p' "$work/decision")
    case $decided in
    "$backend in "*) say "$name: decided by $decided" ;;
    *) fail "$backend was asked, and it was decided by $decided" ;;
    esac
  done
  kill -TERM "$server"
  wait "$server" || {
    cat "$work/server.log" >&2
    fail 'the server did not exit with status 0'
  }
  server=
  close_image
  say "$name: proven: $size, user $user, no shell, read-only but /tmp"
}

CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$work/elastalloc" ./cmd/elastalloc
make --silent controller

# The controller's image. The address of its cluster is a closed port.
grep -qx "USER $user" deploy/Dockerfile.controller || fail 'the controller has another user'
program=$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]$/\1/p' deploy/Dockerfile.controller)
image=$work/controller
install -D -m 755 bin/elastalloc-controller "$image$program"
mkdir "$image/etc"
cat >"$image/etc/config.yaml" <<'CONFIG'
pools: [{name: training, nodeSelector: {pool: training}}]
CONFIG
cat >"$image/etc/kubeconfig" <<'CONFIG'
{apiVersion: v1, kind: Config, current-context: none, users: [{name: none, user: {token: none}}],
 clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: none, context: {cluster: none, user: none}}]}
CONFIG
mount --bind "$image" "$image"
mount -o remount,bind,ro "$image"
said=$(inside chroot --userspec="$user" "$image" "$program" --config=/etc/config.yaml --kubeconfig=/etc/kubeconfig --in-process 2>&1) &&
  fail 'the controller runs without a cluster'
[[ $said == *'https://127.0.0.1:1/api'*'connection refused' ]] || fail "the controller said $said"
close_image
say "the controller's image: proven: user $user, read-only"

image=$work/server
mkdir "$image"
prove 'the default image' '' exact

image=$work/solvers
say "debootstrap of Debian 13 from $mirror"
debootstrap --variant=minbase ${DEBOOTSTRAP_CACHE:+--cache-dir="$DEBOOTSTRAP_CACHE"} \
  trixie "$image" "$mirror" >"$work/debootstrap.log" 2>&1 || {
  tail -n 20 "$work/debootstrap.log" >&2
  fail 'debootstrap failed'
}
say "installing $packages"
# shellcheck disable=SC2086 # A list of packages.
chroot "$image" env DEBIAN_FRONTEND=noninteractive \
  apt-get install --yes -qq --no-install-recommends $packages >"$work/install.log" 2>&1 || {
  tail -n 20 "$work/install.log" >&2
  fail 'installing the packages failed'
}
inside chroot --userspec="$user" "$image" cbc -quit </dev/null | sed -n 's/^Version: */image: CBC /p' | grep . || fail 'CBC does not start'
inside chroot --userspec="$user" "$image" highs --version </dev/null | sed -n 's/^HiGHS version \([^ ]*\).*/image: HiGHS \1/p' | grep . || fail 'HiGHS does not start'
rm -f "$image"/usr/bin/{sh,bash,rbash,dash}
prove 'the image with solvers' "$environment" exact,cbc,highs
