#!/usr/bin/env bash
# Installs CBC and HiGHS on Debian 12, Debian 13 and Ubuntu and prints their
# versions. What is installed already stays as it is. It runs as root or through sudo.
#
# Both are packages of the system, apart from HiGHS on Debian 12. There the packages
# of Debian 13, with the libraries they need, are unpacked into .tools/highs of this
# checkout, and .tools/bin/highs starts that; the system is not touched by it.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

name=solvers
. scripts/packages.sh

# The version in the banner of a solver; it fails if there is no such program.
cbc_version() { cbc -quit 2>/dev/null </dev/null | sed -n 's/^Version: *\([^ ]*\).*/\1/p' | grep .; }
highs_version() { "$1" --version 2>/dev/null </dev/null | sed -n 's/^HiGHS version \([^ ]*\).*/\1/p' | grep .; }

# The program that highs is, in the order in which the tests look for it.
highs_program() {
  if highs_version highs >/dev/null; then
    command -v highs
  elif highs_version "$root/.tools/bin/highs" >/dev/null; then
    echo "$root/.tools/bin/highs"
  else
    return 1
  fi
}

has_package() {
  local candidate
  candidate=$(LC_ALL=C apt-cache policy "$1" | sed -n 's/^  Candidate: //p')
  [ -n "$candidate" ] && [ "$candidate" != '(none)' ]
}

# Unpacks HiGHS of Debian 13, with its own C library, into .tools/highs.
unpack_highs() {
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  local work uri prefix apt triplet loader
  # The archive is the one that this machine has its own packages from.
  uri=$(apt-get indextargets --format '$(REPO_URI)' \
    'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' 'Component: main' | sed -n 1p)
  [ -n "$uri" ] || fail 'found no source of Debian 12 among the sources of apt'

  work=$(mktemp -d)
  # shellcheck disable=SC2064 # The folder of now is meant.
  trap "rm -rf '$work'" EXIT
  prefix=$work/highs
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages" "$prefix"
  echo "deb [signed-by=$keyring] $uri trixie main" >"$work/sources.list"
  apt=(
    -qq
    -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache"
    -o Acquire::Languages=none -o "APT::Sandbox::User=$(id -un)"
  )
  say 'unpacking HiGHS of Debian 13 into .tools/highs'
  apt-get "${apt[@]}" update
  (cd "$work/packages" && apt-get "${apt[@]}" download highs libhighs1 libc6 libstdc++6 libgcc-s1 zlib1g)
  for package in "$work"/packages/*.deb; do
    dpkg -x "$package" "$prefix"
  done

  # The loader of that C library, by its name on every architecture.
  loader=$(cd "$prefix" && echo usr/lib/*/ld-linux*.so.*)
  [ -f "$prefix/$loader" ] || fail "found no loader among the unpacked files: $loader"
  triplet=$(dirname "$loader")
  mkdir -p .tools/bin
  rm -rf .tools/highs
  mv "$prefix" .tools/highs
  # The wrapper finds its folder itself, so that the checkout may be moved.
  cat >.tools/bin/highs <<WRAPPER
#!/bin/sh
prefix=\$(dirname "\$(readlink -f "\$0")")/../highs
exec "\$prefix/$loader" --library-path "\$prefix/$triplet" "\$prefix/usr/bin/highs" "\$@"
WRAPPER
  chmod 755 .tools/highs .tools/bin/highs
}

command -v apt-get >/dev/null || fail 'this machine has no apt; install CBC and HiGHS yourself and put them on the PATH'
# shellcheck source=/dev/null
system=$(. /etc/os-release && echo "${ID:-} ${VERSION_ID:-}")

if cbc_version >/dev/null; then
  say 'CBC is there already'
else
  update_lists
  has_package coinor-cbc || fail "no package coinor-cbc for this system ($system)"
  install_packages coinor-cbc
fi

if highs_program >/dev/null; then
  say 'HiGHS is there already'
else
  update_lists
  if has_package highs; then
    install_packages highs
  elif [ "$system" = 'debian 12' ]; then
    unpack_highs
  else
    fail "no package highs for this system ($system); it is in Debian 13 and later." \
      'Install HiGHS yourself and name it in ELASTALLOC_HIGHS'
  fi
fi

cbc=$(command -v cbc) && cbc_version=$(cbc_version) || fail 'CBC was installed but does not start'
highs=$(highs_program) && highs_version=$(highs_version "$highs") || fail 'HiGHS was installed but does not start'
say "CBC   $cbc_version  $cbc"
say "HiGHS $highs_version  $highs"
