#!/usr/bin/env bash
# The chart's copy of the CRD: Helm reads nothing outside a chart's folder, so manifests/crd/ddpjob.yaml, which is the
# one to edit, is copied into it as it is.
#   sync-crd.sh           copies
#   sync-crd.sh --check   fails when the copy differs
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ORIGIN=$HERE/../manifests/crd/ddpjob.yaml
COPY=$HERE/ddp-operator/files/ddpjob.yaml

case ${1:-} in
  '') cp "$ORIGIN" "$COPY" ;;
  --check)
    diff -u "$ORIGIN" "$COPY" || {
      echo "$COPY differs from $ORIGIN: edit the latter, then run charts/sync-crd.sh" >&2
      exit 1
    }
    ;;
  *)
    sed -n '2,5p' "$0" >&2
    exit 64
    ;;
esac
