#!/usr/bin/env bash
# Makes prometheus and promtool available to the checks of deploy/ and the tests of kube/.
# Where they are not on the PATH, the Debian package prometheus is unpacked into
# .tools/prometheus and linked from .tools/bin. Nothing of the system is changed and no
# service is started; it takes no root.
set -euo pipefail
cd "$(dirname "$0")/.."

starts() { "$1" --version >/dev/null 2>&1; }
show() { "$1" --version 2>&1 | sed -n 's/^\([a-z]*\), version \([^ ]*\).*/prometheus: \1 \2/p'; }
fail() {
  echo "prometheus: $*" >&2
  exit 1
}

PATH="$PATH:$PWD/.tools/bin"
if ! { starts prometheus && starts promtool; }; then
  command -v apt-get >/dev/null || fail 'this machine has no apt; put prometheus and promtool on the PATH'
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/lists/partial" .tools/bin
  # Lists of our own: those of the system may be missing, and take root to update.
  options=(-qq -o "Dir::State::Lists=$work/lists" -o Acquire::Languages=none -o "APT::Sandbox::User=$(id -un)")
  apt-get "${options[@]}" update || echo 'prometheus: some lists could not be updated' >&2
  (cd "$work" && apt-get "${options[@]}" download prometheus) || fail 'no package prometheus for this system'
  rm -rf .tools/prometheus
  dpkg -x "$work"/prometheus_*.deb .tools/prometheus
  for program in prometheus promtool; do
    ln -sf "../prometheus/usr/bin/$program" ".tools/bin/$program"
  done
fi
show prometheus && show promtool
starts prometheus && starts promtool || fail 'it was unpacked but does not start'
