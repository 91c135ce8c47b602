# shellcheck shell=bash
# What the scripts that install packages have in common, for them to source. $name
# begins their messages.

say() { echo "$name: $*"; }
fail() {
  say "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail 'installing packages takes root or sudo'
  fi
}

# The lists of packages are brought up to date once, and only if something is missing.
updated=
update_lists() {
  [ -z "$updated" ] || return 0
  updated=yes
  say 'updating the lists of packages'
  # One broken source among many must not stop us; a package that is missing will.
  as_root apt-get update -qq || say 'some lists could not be updated'
}

# A machine that has just started may be installing its updates: we wait for that.
install_packages() { # packages
  update_lists
  say "installing $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=600 "$@" >/dev/null
}
