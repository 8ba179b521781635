#!/usr/bin/env bash
# A gang by Kubernetes' own scheduler: of a job's pods all get a node or none does. A control plane with controllers and
# scheduler, gang scheduling switched on (alpha), ddp-operator under its own account, and a Node without a kubelet.
#   gang_test.sh DDP-OPERATOR
set -euo pipefail
OPERATOR=$1
SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
STATE=$(mktemp -d "${TMPDIR:-/tmp}/ddp-gang.XXXXXX")
operator=
finish() {
  if [ -n "$operator" ]; then
    kill -9 "$operator" 2>/dev/null || true
    wait "$operator" 2>/dev/null || true
  fi
  "$SOURCE/tests/testbed/cluster.sh" down "$STATE" >/dev/null 2>&1 || true
  rm -rf "$STATE"
}
trap finish EXIT
rmdir "$STATE"
gates=GenericWorkload=true,GangScheduling=true
APISERVER_FLAGS="--feature-gates=$gates --runtime-config=scheduling.k8s.io/v1alpha2=true"
SCHEDULER_FLAGS=--feature-gates=$gates CONTROLLER_FLAGS=--feature-gates=GenericWorkload=true
export APISERVER_FLAGS SCHEDULER_FLAGS CONTROLLER_FLAGS
KUBECONFIG=$("$SOURCE/tests/testbed/cluster.sh" control-plane "$STATE" --controllers --follow $$)
export KUBECONFIG
kubectl() { "$STATE/bin/kubectl" "$@"; }
die() {
  echo "FAILED: $*" >&2
  kubectl get ddp,pods,podgroups -o wide >&2 || true
  tail -5 "$STATE/operator.log" >&2 || true
  exit 1
}
eventually() {  # eventually SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || die "waited in vain for $what"
    sleep 0.1
  done
}

kubectl apply -f "$SOURCE/manifests/crd/ddpjob.yaml" -f "$SOURCE/manifests/operator/namespace.yaml" >/dev/null
kubectl apply -f "$SOURCE/manifests/operator/rbac.yaml" >/dev/null
kubectl wait --for=condition=Established crd/ddpjobs.ddpjob.dev --timeout=30s >/dev/null
cp "$KUBECONFIG" "$STATE/operator.kubeconfig"
token=$(kubectl create token ddp-operator -n ddp-system)
kubectl --kubeconfig="$STATE/operator.kubeconfig" config set-credentials operator --token="$token" >/dev/null
kubectl --kubeconfig="$STATE/operator.kubeconfig" config set-context --current --user=operator --namespace=ddp-system >/dev/null
"$OPERATOR" --kubeconfig "$STATE/operator.kubeconfig" --health-port 0 >"$STATE/operator.log" 2>&1 &
operator=$!

gpus() {  # gpus N: what the node has, and a sign of life
  kubectl patch node gpu-0 --subresource=status --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"True",
      "lastHeartbeatTime":"'"$(date -u +%FT%TZ)"'"}],
    "capacity":{"cpu":"64","memory":"64Gi","pods":"110","nvidia.com/gpu":"'"$1"'"},
    "allocatable":{"cpu":"64","memory":"64Gi","pods":"110","nvidia.com/gpu":"'"$1"'"}}}' >/dev/null
}
echo '{apiVersion: v1, kind: Node, metadata: {name: gpu-0}}' | kubectl create -f - >/dev/null
gpus 2
kubectl create -f - >/dev/null <<'END'
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {name: gang}
spec:
  replicas: 3
  scheduling: {gang: Kubernetes}
  template:
    spec:
      containers:
      - {name: worker, image: none, resources: {limits: {nvidia.com/gpu: 1}}}
END

pods() { kubectl get pods -l "ddpjob.dev/job-name=gang,ddpjob.dev/attempt=$1" -o jsonpath="$2"; }
told_all() { [ "$(pods 1 '{range .items[*]}{.status.conditions[?(@.type=="PodScheduled")].status} {end}')" = 'False False False ' ]; }
all_placed() { [ "$(pods "$1" '{range .items[*]}{.spec.nodeName} {end}')" = 'gpu-0 gpu-0 gpu-0 ' ]; }
eventually 30 'the scheduler to have looked at all three pods' told_all
[ "$(kubectl get podgroup gang-1 -o jsonpath='{.spec.schedulingPolicy.gang.minCount}')" = 3 ] || die 'no pod group of three'
[ -z "$(pods 1 '{.items[*].spec.nodeName}')" ] || die 'a part of the gang has a node'
gpus 4
eventually 30 'all three pods to have a node' all_placed 1

# The next attempt is another gang; the old group goes.
kubectl patch pod gang-1-1 --subresource=status --type=merge \
  -p '{"status":{"phase":"Failed","reason":"NodeShutdown","message":"the node was shut down"}}' >/dev/null
second() { kubectl get podgroup gang-2 >/dev/null 2>&1 && ! kubectl get podgroup gang-1 >/dev/null 2>&1; }
# There is no kubelet: the test lets the survivors go.
stopped() { [ -n "$(kubectl get pod gang-1-0 --ignore-not-found -o jsonpath='{.metadata.deletionTimestamp}')" ]; }
eventually 20 'the operator to stop the survivors' stopped
gpus 4
kubectl delete pod gang-1-0 gang-1-2 --grace-period=0 --force --ignore-not-found >/dev/null 2>&1
eventually 30 'the pod group of the second attempt alone' second
eventually 30 'the second attempt to have its node' all_placed 2
! grep -F '"code":403' "$STATE/audit.log" | grep -qF 'system:serviceaccount:ddp-system:ddp-operator' || die 'the operator lacks a right'
# What manifests/operator/rbac.yaml grants for pod groups is used (get: whose a name is, when it is taken already).
for verb in create deletecollection; do
  grep -F 'system:serviceaccount:ddp-system:ddp-operator' "$STATE/audit.log" | grep -F '"resource":"podgroups"' |
    grep -qF "\"verb\":\"$verb\"" || die "the operator never used its right to $verb podgroups"
done
echo "gangs hold"
