#!/usr/bin/env bash
# The real Kueue in front of the real scheduler: a job's pods are let go all at once when the quota has room, and none
# before. A control plane with controllers and scheduler, Kueue with its pod integration, ddp-operator under its own
# account, and a Node without a kubelet.
#   kueue_test.sh DDP-OPERATOR
set -euo pipefail
OPERATOR=$(realpath "$1")
SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
KUEUE=$("$SOURCE/tests/testbed/build.sh" kueue)
MANIFESTS=$("$SOURCE/tests/testbed/build.sh" kueue-manifests)
STATE=$(mktemp -d "${TMPDIR:-/tmp}/ddp-kueue.XXXXXX")
children=()
finish() {
  if [ ${#children[@]} != 0 ]; then
    kill -9 "${children[@]}" 2>/dev/null || true
    wait "${children[@]}" 2>/dev/null || true
  fi
  "$SOURCE/tests/testbed/cluster.sh" down "$STATE" >/dev/null 2>&1 || true
  rm -rf "$STATE"
}
trap finish EXIT
rmdir "$STATE"
KUBECONFIG=$("$SOURCE/tests/testbed/cluster.sh" control-plane "$STATE" --controllers --follow $$)
export KUBECONFIG
kubectl() { "$STATE/bin/kubectl" "$@"; }
die() {
  echo "FAILED: $*" >&2
  kubectl get ddp,pods,workloads,clusterqueues -o wide >&2 || true
  tail -n 12 "$STATE/operator.log" "$STATE/kueue.log" >&2 || true
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
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# ---- Kueue, reached by its webhooks on loopback ------------------------------------------------------------------

kubectl apply --server-side -f "$MANIFESTS/crd/bases" >/dev/null
kubectl create namespace kueue-system >/dev/null
webhooks=$(free_port) health=$(free_port)
mkdir "$STATE/serving"
cp "$STATE/pki/apiserver.crt" "$STATE/serving/tls.crt"
cp "$STATE/pki/apiserver.key" "$STATE/serving/tls.key"
cat >"$STATE/kueue.yaml" <<END
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:$health"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: $webhooks, certDir: "$STATE/serving"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
integrations: {frameworks: [pod]}
managedJobsNamespaceSelector:
  matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system, ddp-system]}]
END
kubectl create --dry-run=client -o json -f "$MANIFESTS/webhook/manifests.yaml" >"$STATE/webhooks.json"
python3 - "$STATE/webhooks.json" "https://127.0.0.1:$webhooks" "$(base64 -w0 "$STATE/pki/ca.crt")" >"$STATE/webhooks-here.json" <<'END'
# Those for pods and for Kueue's own resources; the rest is of resources that are not served here.
import json, sys

with open(sys.argv[1], encoding="utf-8") as file:
    decoder, text, found = json.JSONDecoder(), file.read().strip(), []
while text:
    value, end = decoder.raw_decode(text)
    found += value["items"] if value["kind"] == "List" else [value]
    text = text[end:].strip()
for configuration in found:
    kept = []
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        if "--v1-pod" in path or "kueue-x-k8s-io" in path:
            webhook["clientConfig"] = {"url": sys.argv[2] + path, "caBundle": sys.argv[3]}
            webhook["namespaceSelector"] = {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "ddp-system"]}
                ]
            }
            kept.append(webhook)
    configuration["webhooks"] = kept
print(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}))
END
kubectl wait --for=condition=Established crd/workloads.kueue.x-k8s.io --timeout=30s >/dev/null
# It insists on a certificate for its metrics in /etc/kueue: that folder is its own alone.
alone=(unshare --mount)
[ "$(id -u)" = 0 ] || alone+=(--map-root-user)
# shellcheck disable=SC2016  # it expands what it is given
"${alone[@]}" bash -c 'mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && ln -s "$1" /etc/kueue/metrics/certs && shift && exec "$@"' \
  kueue "$STATE/serving" "$KUEUE" --config="$STATE/kueue.yaml" --feature-gates=VisibilityOnDemand=false >"$STATE/kueue.log" 2>&1 &
children+=($!)
answers() { curl -sf "http://127.0.0.1:$health/readyz" >/dev/null; }
eventually 60 'Kueue to be ready' answers
kubectl create -f "$STATE/webhooks-here.json" >/dev/null
queues() {
  kubectl apply -f - >/dev/null 2>&1 <<'END'
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: plain}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: plain, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: training, namespace: default}
spec: {clusterQueue: all}
END
}
eventually 30 'the queues to be accepted' queues

# ---- the operator and a node -------------------------------------------------------------------------------------

kubectl apply -f "$SOURCE/manifests/crd/ddpjob.yaml" -f "$SOURCE/manifests/operator/namespace.yaml" >/dev/null
kubectl apply -f "$SOURCE/manifests/operator/rbac.yaml" >/dev/null
kubectl wait --for=condition=Established crd/ddpjobs.ddpjob.dev --timeout=30s >/dev/null
cp "$KUBECONFIG" "$STATE/operator.kubeconfig"
token=$(kubectl create token ddp-operator -n ddp-system)
kubectl --kubeconfig="$STATE/operator.kubeconfig" config set-credentials operator --token="$token" >/dev/null
kubectl --kubeconfig="$STATE/operator.kubeconfig" config set-context --current --user=operator --namespace=ddp-system >/dev/null
"$OPERATOR" --kubeconfig "$STATE/operator.kubeconfig" --health-port 0 >"$STATE/operator.log" 2>&1 &
children+=($!)
alive() {  # a sign of life of the node, which has far more than the quota
  kubectl patch node cpu-0 --subresource=status --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"True",
      "lastHeartbeatTime":"'"$(date -u +%FT%TZ)"'"}],
    "capacity":{"cpu":"64","memory":"64Gi","pods":"110"},"allocatable":{"cpu":"64","memory":"64Gi","pods":"110"}}}' >/dev/null
}
echo '{apiVersion: v1, kind: Node, metadata: {name: cpu-0}}' | kubectl create -f - >/dev/null
alive

job() {  # job NAME REPLICAS, one CPU each
  kubectl create -f - >/dev/null <<END
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {name: $1}
spec:
  replicas: $2
  scheduling: {queue: training}
  template:
    spec:
      containers:
      - {name: worker, image: none, resources: {requests: {cpu: 1}}}
END
}
pods() { kubectl get pods -l "ddpjob.dev/job-name=$1" -o jsonpath="$2"; }
each() { pods "$1" "{range .items[*]}{$2} {end}" | tr ' ' '\n' | grep -c . || true; }
placed() { [ "$(each "$1" .spec.nodeName)" = "$2" ]; }
gated() { [ "$(each "$1" '.spec.schedulingGates[?(@.name=="kueue.x-k8s.io/admission")].name')" = "$2" ]; }
workload_is() {  # workload_is JOB CONDITION STATUS
  [ "$(kubectl get workloads -o jsonpath="{range .items[?(@.metadata.name==\"$1-1\")]}{.status.conditions[?(@.type==\"$2\")].status}{end}")" = "$3" ]
}

job first 2
eventually 30 'the first job to be admitted' workload_is first Admitted True
eventually 30 'both pods of the first job to have a node' placed first 2
gated first 0 || die 'a pod of an admitted job is held back'

job second 3  # 2 of 4 are taken: a part of it would fit
eventually 30 'Kueue to have looked at the second job' workload_is second QuotaReserved False
eventually 10 'all pods of the second job to be held back' gated second 3
placed second 0 || die 'a part of the second job has a node'
# The operator has nothing to complain of: a job that waits for its turn is starting, not broken.
[ "$(kubectl get ddp second -o jsonpath='{.status.restarts.total}')" = 0 ] || die 'waiting was counted as a restart'

kubectl delete ddp first --wait=false >/dev/null
leave() { [ "$(each first .metadata.deletionTimestamp)" = "$(each first .metadata.name)" ]; }
eventually 20 'the pods of the first job to be told to end' leave
for pod in $(pods first '{.items[*].metadata.name}'); do  # there is no kubelet: the test ends them
  kubectl patch pod "$pod" --subresource=status --type=merge -p '{"status":{"phase":"Failed"}}' >/dev/null
  kubectl delete pod "$pod" --grace-period=0 --force --wait=false >/dev/null 2>&1
done
gone() { [ "$(each first .metadata.name)" = 0 ]; }
eventually 30 'Kueue to let the pods of the first job go' gone
alive
eventually 30 'the second job to be admitted' workload_is second Admitted True
eventually 30 'all pods of the second job to have a node' placed second 3
gated second 0 || die 'a pod of the second job is still held back'
! grep -F '"code":403' "$STATE/audit.log" | grep -qF 'system:serviceaccount:ddp-system:ddp-operator' || die 'the operator lacks a right'
echo "queues hold"
