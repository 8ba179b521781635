#!/usr/bin/env bash
# Helm reads nothing outside a chart's folder, so the chart has copies of the CRD, the rules and the dashboards. The
# originals in manifests/ are the ones to edit. (Of those, prometheusrule.yaml is made from rules.yaml, and the dashboards by
# dashboards.py.)
#   sync.sh           copies, and writes the chart's README from its values (helm-docs) and docs/manifest.md from the CRD
#   sync.sh --check   fails when one of all these is not as it would be written
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CHART=$HERE/ddp-operator
MANIFESTS=$HERE/../manifests

# copies TARGET: all that the chart's folder `files` has to have.
copies() {
  mkdir -p "$1/dashboards"
  cp "$MANIFESTS/crd/ddpjob.yaml" "$MANIFESTS/monitoring/rules.yaml" "$1"
  cp "$MANIFESTS"/monitoring/dashboards/*.json "$1/dashboards"
}

# prometheus_rule: the rules as a resource of Prometheus' operator.
prometheus_rule() {
  printf '# Made from rules.yaml by charts/sync.sh.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n'
  printf 'metadata:\n  name: ddp-operator\nspec:\n'
  sed -n '/^groups:/,$s/^\(.\)/  \1/p' "$MANIFESTS/monitoring/rules.yaml"
}

reference() { "$("$HERE/../tests/testbed/build.sh" crd-reference)" "$MANIFESTS/crd/ddpjob.yaml"; }

# readme FOLDER: of the chart in it, beside it.
readme() { "$("$HERE/../tests/testbed/build.sh" helm-docs)" --log-level warning --chart-search-root "$1" --template-files README.md.gotmpl; }

case ${1:-} in
  '')
    "$MANIFESTS/monitoring/dashboards.py"
    prometheus_rule >"$MANIFESTS/monitoring/prometheusrule.yaml"
    rm -rf "$CHART/files"
    mkdir "$CHART/files"
    copies "$CHART/files"
    readme "$CHART"
    reference >"$HERE/../docs/manifest.md"
    ;;
  --check)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/files"
    "$MANIFESTS/monitoring/dashboards.py" --check
    reference | diff -u "$HERE/../docs/manifest.md" - || exit 1
    prometheus_rule | diff -u "$MANIFESTS/monitoring/prometheusrule.yaml" - || exit 1
    copies "$work/files"
    cp "$CHART"/{Chart.yaml,values.yaml,README.md.gotmpl} "$work"
    readme "$work"
    { diff -ur "$CHART/files" "$work/files" && diff -u "$CHART/README.md" "$work/README.md"; } || {
      echo 'The chart is not in step with manifests/ or its values: run charts/sync.sh' >&2
      exit 1
    }
    ;;
  *)
    sed -n '2,7p' "$0" >&2
    exit 64
    ;;
esac
