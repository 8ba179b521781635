#!/usr/bin/env bash
# The CRD against a real API server: plain apply works, good jobs are accepted, and each bad one is refused with a
# sentence that names the place, by `kubectl ddp validate` too. A rule that refused nothing here is a failure.
#   crd_test.sh KUBECTL-DDP
set -euo pipefail
VALIDATE=$1
SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
STATE=$(mktemp -d "${TMPDIR:-/tmp}/ddp-crd.XXXXXX")
finish() {
  "$SOURCE/tests/testbed/cluster.sh" down "$STATE" >/dev/null 2>&1 || true
  rm -rf "$STATE"
}
trap finish EXIT
rmdir "$STATE"
KUBECONFIG=$("$SOURCE/tests/testbed/cluster.sh" control-plane "$STATE" --follow $$)
export KUBECONFIG
kubectl() { "$STATE/bin/kubectl" "$@"; }
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

kubectl apply -f "$SOURCE/manifests/crd/ddpjob.yaml" >/dev/null
kubectl wait --for=condition=Established crd/ddpjobs.ddpjob.dev --timeout=30s >/dev/null
violations=$(kubectl get crd ddpjobs.ddpjob.dev -o jsonpath='{.status.conditions[?(@.type=="NonStructuralSchema")].message}')
[ -z "$violations" ] || fail "the schema is not structural: $violations"

worker='[{name: worker, image: i, resources: {limits: {cpu: 1}}}]'
# job NAME [SPEC-LINES]: a manifest, in $manifest; the lines are added to spec.
job() {
  manifest=$(cat <<END
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {name: $1}
spec:
  ${replicas:-replicas: 2}
  template:
    metadata: {labels: ${labels:-{\}}}
    spec:
      ${template:-}
      containers: ${containers:-$worker}
  ${2:-}
END
  )
}
refusals=  # all that was said
accepted() {  # accepted WHAT: what `job` left in $manifest
  local said
  said=$(kubectl create -f - 2>&1 <<<"$manifest") || fail "refused: $1: $said"
  said=$("$VALIDATE" validate -f - 2>&1 <<<"$manifest") || fail "refused locally: $1: $said"
}
refused() {  # refused TEXT: the same; the text is the server's
  local said
  if said=$(kubectl create -f - 2>&1 <<<"$manifest"); then
    fail "accepted, wanted: $1"
  else
    grep -qF -- "$1" <<<"$said" || fail "wanted: $1 -- said: $said"
  fi
  refusals+=$said$'\n'
  if said=$("$VALIDATE" validate -f - 2>&1 <<<"$manifest"); then
    fail "accepted locally, wanted: $1"
  fi
}

job plain; accepted plain
[ "$(kubectl get ddp plain -o jsonpath='{.spec.restart.maxRestarts} {.spec.progress.port} {.spec.shm.size}')" = '3 9410 1Gi' ] || fail defaults
[ "$(kubectl get ddp plain -o jsonpath='{.spec.template.spec.containers[0].resources.limits.cpu}')" = 1 ] || fail 'the template is not kept'
columns=$(kubectl get ddp plain)  # not through a pipe that closes early: kubectl would fail of it
grep -Eq '^NAME +PHASE +READY +STEP +PERCENT +LEFT +RESTARTS +AGE' <<<"$columns" || fail "columns: $columns"
job full 'checkpoint: {path: /c, claimName: c, mount: All}'; accepted checkpoint
claim='{spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}, notYetInvented: 1}}'
job everything "checkpoint: {path: /c, claimTemplate: $claim, retain: Delete}
  processesPerReplica: 4
  restart: {rules: [{exitCodes: [3, 4], action: Fail}, {reasons: [OOMKilled], action: RestartUncounted}]}
  startupTimeoutSeconds: 60
  progress: {stallTimeoutSeconds: 120, onStall: Report}
  activeDeadlineSeconds: 3600
  ttlSecondsAfterFinished: 0
  cleanPodPolicy: All
  managedBy: example.com/other
  scheduling: {gang: Kubernetes, queue: q, topologyKey: topology.kubernetes.io/zone, topologyMode: Required}"; accepted everything
[ "$(kubectl get ddp everything -o jsonpath='{.spec.checkpoint.claimTemplate.spec.notYetInvented}')" = 1 ] || fail 'the claim template is not kept'
job "$(printf 'a%.0s' {1..54})"; accepted 'longest name'

job "$(printf 'a%.0s' {1..55})"; refused 'metadata.name is too long, because pods are named <name>-<attempt>-<rank> within 63 characters'
job mnist.x; refused 'metadata.name must be lower-case letters'
job 9mnist; refused 'metadata.name must be lower-case letters'
replicas='replicas: 11' job "$(printf 'a%.0s' {1..54})"; refused 'metadata.name is too long'
replicas='replicas: 0' job a; refused 'spec.replicas: Invalid value: 0'
replicas='replica: 2' job a; refused 'unknown field "spec.replica"'
job a 'mood: good'; refused 'unknown field "spec.mood"'
job a 'suspend: "yes"'; refused 'spec.suspend'
job a 'progress: {port: 80}'; refused 'spec.progress.port: Invalid value: 80'
job a 'progress: {port: 29500}'; refused 'is the rendezvous port too'
job a 'shm: {size: big}'; refused 'spec.shm.size'
job a 'shm: {size: 0Gi}'; refused 'must be more than 0'
job a 'restart: {backoffSeconds: 9, maxBackoffSeconds: 5}'; refused 'must not be less than backoffSeconds'
job a 'checkpoint: {path: /c}'; refused 'must have either claimName or claimTemplate'
job a "checkpoint: {path: /c, claimName: c, claimTemplate: $claim}"; refused 'must have either claimName or claimTemplate'
job a 'checkpoint: {path: /c, claimName: c, retain: Keep}'; refused 'is for a claim from claimTemplate'
job a 'checkpoint: {path: /c, claimTemplate: {spec: {resources: {}}}}'; refused 'spec.checkpoint.claimTemplate.spec.accessModes: Required value'
job a 'checkpoint: {path: /c, claimName: c, mount: Some}'; refused 'spec.checkpoint.mount'
job a 'processesPerReplica: 0'; refused 'spec.processesPerReplica: Invalid value: 0'
job a 'progress: {port: 65529}
  processesPerReplica: 8'; refused 'leaves no port for each process'
job a 'progress: {port: 29493}
  processesPerReplica: 8'; refused 'is the rendezvous port too'
job a 'progress: {stallTimeoutSeconds: -1}'; refused 'spec.progress.stallTimeoutSeconds'
job a 'progress: {onStall: Nap}'; refused 'spec.progress.onStall'
job a 'startupTimeoutSeconds: -1'; refused 'spec.startupTimeoutSeconds'
job a 'activeDeadlineSeconds: 0'; refused 'spec.activeDeadlineSeconds'
job a 'ttlSecondsAfterFinished: -1'; refused 'spec.ttlSecondsAfterFinished'
job a 'cleanPodPolicy: Some'; refused 'spec.cleanPodPolicy'
job a 'managedBy: me'; refused 'spec.managedBy'
job a 'scheduling: {gang: Herd}'; refused 'spec.scheduling.gang'
job a 'scheduling: {queue: Q}'; refused 'spec.scheduling.queue'
job a 'scheduling: {topologyKey: a b}'; refused 'spec.scheduling.topologyKey'
job a 'scheduling: {topologyMode: Maybe}'; refused 'spec.scheduling.topologyMode'
job a 'restart: {rules: [{action: Fail}]}'; refused 'must have either exitCodes or reasons'
job a 'restart: {rules: [{exitCodes: [1], reasons: [A], action: Fail}]}'; refused 'must have either exitCodes or reasons'
job a 'restart: {rules: [{exitCodes: [0], action: Fail}]}'; refused 'spec.restart.rules[0].exitCodes[0]'
job a 'restart: {rules: [{exitCodes: [], action: Fail}]}'; refused 'spec.restart.rules[0].exitCodes'
job a 'restart: {rules: [{reasons: [no word], action: Fail}]}'; refused 'spec.restart.rules[0].reasons[0]'
job a 'restart: {rules: [{exitCodes: [1]}]}'; refused 'spec.restart.rules[0].action: Required value'
job a 'checkpoint: {path: c, claimName: c}'; refused 'spec.checkpoint.path'
job a 'checkpoint: {path: /a/../b, claimName: c}'; refused 'must be an absolute folder'
labels='{ddpjob.dev/rank: "7"}' job a; refused 'labels that start with ddpjob.dev/ belong to the operator'
template='restartPolicy: OnFailure' job a; refused 'must be Never or absent'
template='hostname: h' job a; refused 'spec.template.spec.hostname'
template='subdomain: h' job a; refused 'spec.template.spec.subdomain'
template='setHostnameAsFQDN: true' job a; refused 'spec.template.spec.setHostnameAsFQDN'
template=$'hostNetwork: true\n      hostIPC: true' job a; refused 'must not be true together with hostNetwork'
template=$'hostNetwork: true\n      hostIPC: true' job hostipc 'processesPerReplica: 8'; accepted 'hostIPC with all ranks of a node in a pod'
template='hostNetwork: true' job hostnetwork; accepted hostNetwork
template='volumes: [{name: ddp-shm}]' job a; refused 'belong to the operator'
containers='[]' job a; refused 'spec.template.spec.containers'
containers='[{name: w, env: [{name: RANK, value: "1"}]}]' job a; refused 'sets a variable that the operator sets'
containers='[{name: w, volumeMounts: [{name: v, mountPath: /dev/shm}]}]' job a; refused '/dev/shm belongs to the operator'
containers='[{name: w, volumeMounts: [{name: v, mountPath: /c/x}]}]' job a 'checkpoint: {path: /c, claimName: c}'; refused 'is covered by a volumeMount'
containers='[{name: side, env: [{name: RANK, value: "1"}]}, {name: worker}]' job side; accepted 'a sidecar with RANK'

patch() { kubectl patch ddp plain --type merge -p "{\"spec\":$1}" 2>&1; }
for change in '{"restart":{"maxRestarts":9}}' '{"activeDeadlineSeconds":9}' '{"ttlSecondsAfterFinished":9}'; do
  said=$(patch "$change") || fail "can not be changed: $change: $said"
done
fixed=('{"replicas":3}' '{"template":{"spec":{"nodeSelector":{"a":"b"}}}}' '{"restart":{"backoffSeconds":7}}' '{"restart":{"gracePeriodSeconds":7}}'
  '{"restart":{"rules":[{"exitCodes":[1],"action":"Fail"}]}}' '{"checkpoint":{"path":"/c","claimName":"c"}}' '{"rendezvous":{"port":1}}'
  '{"shm":{"size":"2Gi"}}' '{"processesPerReplica":2}' '{"progress":{"stallTimeoutSeconds":5}}' '{"startupTimeoutSeconds":5}'
  '{"cleanPodPolicy":"All"}' '{"scheduling":{"queue":"q"}}' '{"suspend":true,"replicas":3}')
for change in "${fixed[@]}"; do
  said=$(patch "$change") && fail "changed: $change"
  refusals+=$said$'\n'
  grep -q 'changed unless the job is suspended' <<<"$said" || fail "$change: $said"
done
patch '{"suspend":true}' >/dev/null || fail 'suspend can not be set'
for change in "${fixed[@]}"; do
  said=$(patch "$change") || fail "not changed while suspended: $change: $said"
done
said=$(patch '{"managedBy":"example.com/other"}') && fail 'managedBy was changed'
refusals+=$said
grep -q "managedBy can't be changed after creation" <<<"$said" || fail "managedBy: $said"
said=$(patch '{"suspend":false,"template":{"spec":{"nodeSelector":{"a":"c"}}}}') || fail "not changed while resumed: $said"
said=$(patch '{"replicas":4}') && fail 'changed after it was resumed'

# What is applied again changes nothing: defaults do not make a new generation.
generation() { kubectl get ddp "$1" -o jsonpath='{.metadata.generation}'; }
for how in '' --server-side; do
  name=again${how:+-server}
  for _ in 1 2 3; do
    job "$name" 'restart: {maxRestarts: 1}'
    said=$(kubectl apply $how -f - 2>&1 <<<"$manifest") || fail "apply $how: $said"
  done
  [ "$(generation "$name")" = 1 ] || fail "applied again $how: generation $(generation "$name")"
done

explained=$(kubectl explain ddpjob.spec.restart | tr -s '[:space:]' ' ')  # which wraps its lines
for word in 'What happens when a rank fails. The whole group restarts together.' \
  'maxRestarts <integer> How often the group may restart because of the program;' \
  'backoffSeconds <integer> The wait before the second restart in a row;' \
  'gracePeriodSeconds <integer> How long the survivors of a failed attempt have to end;' \
  'rules <[]Object> What to do about particular failures; the first that matches decides'; do
  grep -qF -- "$word" <<<"$explained" || fail "kubectl explain says nothing of: $word"
done

# Each rule's message was among what was said, so each rule has refused something.
kubectl get crd ddpjobs.ddpjob.dev -o json >"$STATE/crd.json"
silent=$(REFUSALS=$refusals python3 - "$STATE/crd.json" <<'END'
import json, os, sys

def rules(node):
    if isinstance(node, dict):
        yield from node.get("x-kubernetes-validations", [])
        for value in node.values():
            yield from rules(value)
    elif isinstance(node, list):
        for value in node:
            yield from rules(value)

said = os.environ["REFUSALS"]
with open(sys.argv[1], encoding="utf-8") as file:
    found = list(rules(json.load(file)["spec"]["versions"][0]["schema"]))
assert len(found) > 20, found
for rule in found:
    place = rule.get("fieldPath", "")
    if not any(rule["message"] in line and f"{place}:" in line for line in said.splitlines()):
        print(f"{place} {rule['message']} ({rule['rule']})")
END
)
[ -z "$silent" ] || fail "rules that refused nothing here: $silent"

[ "$failures" = 0 ] || exit 1
echo "the CRD holds"
