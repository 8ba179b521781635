#!/usr/bin/env bash
# Builds a program of the test bed, once, and prints where it is.
#   build.sh kube|coredns|helm|helm-docs|dashboard-check|crd-reference|kueue
#   build.sh prometheus-crds      only fetches: prints the folder with the resources of Prometheus' operator
#   build.sh kueue-manifests      the same with those of Kueue: crd/ and webhook/
# It lies in $DDP_CACHE/bin/<name>-<hash>/, the hash covering its sources and the Go version: what is built
# already is only looked up (20 ms). Go's own caches are kept beside it, so a new version recompiles only
# what changed. Callers that come meanwhile wait for the one that builds.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${DDP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}

# use_go: puts a Go that can build the modules first in PATH.
use_go() {
  if ! [[ $(go env GOVERSION 2>/dev/null) =~ ^go1\.(2[6-9]|[3-9][0-9]) ]]; then
    "$HERE/../../cmake/fetch.sh" go
    PATH=$(dirname "$(find "$CACHE/go-toolchain" -path '*/bin/go' -type f -print -quit)"):$PATH
  fi
  export GOTOOLCHAIN=local GOMODCACHE=$CACHE/go/mod GOCACHE=$CACHE/go/build GOFLAGS='-mod=readonly -buildvcs=false'
}

# version MODULE: which one $name's go.mod asks for.
version() { sed -nE "s|^\s+$1 (v[0-9.]+)( // indirect)?$|\1|p" "$HERE/$name/go.mod"; }

name=${1:-} package=.
flags='-s -w'
case $name in
  kube) flags+=" -X k8s.io/component-base/version.gitVersion=$(version k8s.io/kubernetes)" ;;
  coredns | dashboard-check | crd-reference) ;;
  helm-docs) package=github.com/norwoodj/helm-docs/cmd/helm-docs ;;
  kueue) package=sigs.k8s.io/kueue/cmd/kueue ;;
  kueue-manifests)
    use_go
    cd "$HERE/kueue"
    go mod download sigs.k8s.io/kueue
    echo "$(go list -m -f '{{.Dir}}' sigs.k8s.io/kueue)/config/components"
    exit
    ;;
  prometheus-crds)
    use_go
    cd "$HERE/$name"
    go mod download github.com/prometheus-operator/prometheus-operator
    echo "$(go list -m -f '{{.Dir}}' github.com/prometheus-operator/prometheus-operator)/example/prometheus-operator-crd"
    exit
    ;;
  helm)  # what its own release build sets: without it, Helm takes itself for an old one for Kubernetes 1.20
    package=helm.sh/helm/v3/cmd/helm
    flags+=" -X helm.sh/helm/v3/internal/version.version=$(version helm.sh/helm/v3)"
    minor=$(version k8s.io/client-go | cut -d. -f2)
    for place in pkg/lint/rules pkg/chartutil; do
      flags+=" -X helm.sh/helm/v3/$place.k8sVersionMajor=1 -X helm.sh/helm/v3/$place.k8sVersionMinor=$minor"
    done
    ;;
  *)
    sed -n '2,8p' "$0" >&2
    exit 64
    ;;
esac

use_go
hash=$({ go env GOVERSION && echo "$flags" && cat "$HERE/$name"/*; } | sha256sum | cut -c1-16)
folder=$CACHE/bin/$name-$hash
if [ ! -x "$folder/$name" ]; then
  mkdir -p "$folder"
  exec 9>"$folder/.lock"
  flock 9
fi
if [ ! -x "$folder/$name" ]; then
  printf '[testbed] building %s with %s: minutes if the Go cache is cold\n' "$name" "$(go env GOVERSION)" >&2
  (cd "$HERE/$name" && nice go build -trimpath -ldflags "$flags" -o "$folder/$name.new" "$package") >&2
  mv "$folder/$name.new" "$folder/$name"
fi
echo "$folder/$name"
