#!/usr/bin/env bash
# Builds the documentation as a static site with Hugo, which it installs where it is missing (Debian, Ubuntu), into a
# folder that must not exist, and checks its links. The site needs no server and names the version of the checkout.
#
#   scripts/site.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
name=site
. scripts/packages.sh
out=$1
[ ! -e "$out" ] || fail "$out exists"
command -v hugo >/dev/null || install_packages hugo

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Hugo takes a comment at the begin of a file for metadata, and _index.md is its name of README.md.
git ls-files -z README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md 'docs/*.md' 'docs/*.png' 'deploy/runbook*.md' 'cmd/*.md' |
  while IFS= read -r -d '' file; do
    copy=$work/content/${file/%README.md/_index.md}
    mkdir -p "$(dirname "$copy")"
    case $file in
    *.md) sed '1{/^<!--.*-->$/d}' "$file" >"$copy" ;;
    *) cp "$file" "$copy" ;;
    esac
  done
HUGO_CONTENTDIR=$work/content HUGO_RESOURCEDIR=$work/resources \
  HUGO_PARAMS_VERSION=$(git describe --tags --match 'v[0-9]*' --always --dirty --abbrev=12) \
  HUGO_PARAMS_COMMIT=$(git rev-parse HEAD) \
  HUGO_PARAMS_REPOSITORY=https://github.com/elastalloc/elastalloc \
  hugo --source scripts/site --destination "$(realpath -m "$out")" --noBuildLock --quiet
python3 -B scripts/site/check.py "$out"
