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
