#!/usr/bin/env bash
# Renders the plain manifests in deploy/kubernetes from the Helm chart. With --check
# it changes nothing and fails where they are not what the chart renders.
#
#   scripts/deploy-render.sh [--check]
#
# HELM names helm where it is not in .tools/bin.
set -euo pipefail
cd "$(dirname "$0")/.."
helm=${HELM:-.tools/bin/helm}
folder=deploy/kubernetes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case ${1:-} in
'') target=$folder ;;
--check)
  target=$work/rendered
  mkdir "$target"
  ;;
*)
  echo "usage: $0 [--check]" >&2
  exit 2
  ;;
esac
"$helm" version --short >/dev/null || {
  echo "render: helm is missing: $helm" >&2
  exit 1
}

# The chart without the labels and annotations of Helm. Each time that they are
# applied, a number of replicas would undo what the autoscaler has done.
render() {
  echo '# Rendered from deploy/helm/elastalloc by scripts/deploy-render.sh; change it there.'
  "$helm" template elastalloc deploy/helm/elastalloc --namespace elastalloc --kube-version 1.33.0 --set autoscaling.keepReplicas=false "$@" 2>"$work/errors" |
    sed -e '/^ *app.kubernetes.io\/managed-by: /d' -e '/^ *helm.sh\/chart: /d' -e '/^# Source: /d' || {
    cat "$work/errors" >&2
    return 1
  }
}
render >"$target/elastalloc.yaml"
# What needs the Prometheus operator and Grafana's sidecar is a file of its own.
render --set serviceMonitor.enabled=true,prometheusRule.enabled=true,grafanaDashboard.enabled=true \
  --show-only templates/servicemonitor.yaml \
  --show-only templates/prometheusrule.yaml \
  --show-only templates/grafanadashboard.yaml >"$target/monitoring.yaml"

if [ "$target" != "$folder" ]; then
  for file in elastalloc.yaml monitoring.yaml; do
    diff -u "$folder/$file" "$target/$file" || {
      echo "render: $folder/$file is not what the chart renders; run scripts/deploy-render.sh" >&2
      exit 1
    }
  done
fi
