# The node: containerd, kubelet, kube-proxy and CoreDNS. Sourced by cluster.sh.
#
# A node changes the machine it runs on: bridges, iptables rules, mounts, sockets in /run, processes that outlive their
# parents (containerd's shims). Here all of it happens in namespaces of its own for network, mounts and
# processes. Their first process is the cluster's inner half (`inside`): when it dies, the kernel takes the rest down.
# What is outside is files in the state folder, and cgroups, which are removed by name.
# shellcheck shell=bash

NODE=node-0
SERVICE_CIDR=10.97.0.0/16
SERVICE_IP=10.97.0.1
POD_CIDR=10.88.0.0/16
BRIDGE=pods0
BIND_ADDRESS=127.0.0.1
API_ADDRESS=127.0.0.1
CNI_PROGRAMS=/usr/lib/cni

# use_node: the settings and checks of a cluster with a node, whose services listen on the pods' bridge.
use_node() {
  WITH_NODE=yes CONTROLLERS=yes
  BIND_ADDRESS=0.0.0.0 API_ADDRESS=10.88.0.1 API_PORT=6443
  PATH=$PATH:/usr/sbin:/sbin
}

check_node() {
  local program missing=()
  [ "$(id -u)" = 0 ] || die 'a node needs root (namespaces, mounts, cgroups): run it as root, or use control-plane'
  for program in containerd ctr runc iptables conntrack ip nsenter unshare buildah busybox; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  [ -x $CNI_PROGRAMS/bridge ] || missing+=("$CNI_PROGRAMS/bridge")
  [ ${#missing[@]} = 0 ] || die "a node needs programs that are not here: ${missing[*]} (run \`cmake/fetch.sh packages node\`)"
  unshare --net --mount --pid --fork true 2>/dev/null || die 'a node needs namespaces of its own, and this container or kernel forbids them (unshare fails)'
  case $STATE in /run/* | /var/run/* | /var/lib/kubelet/*) die "the state folder of a node can't be below ${STATE%/*}, which is hidden from it" ;; esac
  [ ${#STATE} -le 80 ] || die "the path of a node's state folder has at most 80 characters, for its sockets: $STATE"
}

# ---- outside -------------------------------------------------------------------------------------------------

start_namespaces() {
  make_cgroup
  start namespaces unshare --net --mount --pid --fork --kill-child "$SELF" inside "$STATE"
  wait_for 120 'the node to be ready' namespaces test -e ready ||
    { tail -n 5 logs/namespaces.log >&2; die "the node did not come up: see $STATE/logs"; }
}

follow_namespaces() {
  while running namespaces && follows; do pause 0.3; done
}

cgroup_folders() {  # version 2 has one tree, version 1 a tree for each controller
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo "/sys/fs/cgroup/$CGROUP"
  else
    printf "%s/$CGROUP\n" /sys/fs/cgroup/*
  fi
}
make_cgroup() {
  local folder
  for folder in $(cgroup_folders); do mkdir -p "$folder"; done
  # A new cpuset is empty, and no process may enter an empty one.
  folder=/sys/fs/cgroup/cpuset
  [ ! -e $folder/cpuset.cpus ] || for file in cpuset.cpus cpuset.mems; do cat $folder/$file >"$folder/$CGROUP/$file"; done
}
leave_no_cgroup() {
  local folder deadline=$((SECONDS + 5))
  for folder in $(cgroup_folders); do
    while [ -d "$folder" ] && ! find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null; do
      [ $SECONDS -lt $deadline ] || { echo "could not remove the cgroup $folder" >&2; break; }
      sleep 0.1  # killed processes leave their cgroup a moment later
    done
  done
}

# enter COMMAND...: as a process of the cluster.
enter() {
  supervisor >/dev/null || die "no cluster runs in $STATE"
  export KUBECONFIG=$STATE/admin.kubeconfig PATH=$STATE/bin:$PATH
  [ -e "$STATE/init-pid" ] || exec "$@"
  exec nsenter --target "$(cat "$STATE/init-pid")" --net --mount --pid --wdns="$PWD" -- "$@"
}

# ---- inside --------------------------------------------------------------------------------------------------

# inside: the first process of the namespaces.
inside() {
  local pid _
  cd "$STATE" || exit
  read -r pid _ </proc/self/stat  # of the machine: /proc is not ours yet
  echo "$pid" >init-pid
  trap 'exit 0' TERM
  isolate
  start_containerd
  control_plane
  start_node
  touch ready
  serve
}

isolate() {
  mount --make-rshared /  # among ourselves: as kubelet expects it
  mount -t proc proc /proc
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /var/lib/kubelet
  mount -t tmpfs -o mode=755 tmpfs /var/lib/kubelet  # kubelet has fixed paths there, whatever its root folder
  ip link set lo up
  ip link add $BRIDGE type bridge
  ip addr add "$API_ADDRESS/16" dev $BRIDGE
  ip link set $BRIDGE up
  echo 1 >/proc/sys/net/ipv4/ip_forward
}

start_containerd() {
  mkdir -p cni
  cat >cni/10-pods.conflist <<END
{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge", "bridge": "$BRIDGE", "hairpinMode": true,
      "ipam": {
        "type": "host-local", "dataDir": "$STATE/cni/addresses",
        "ranges": [[{"subnet": "$POD_CIDR", "rangeStart": "${API_ADDRESS%.*}.10", "gateway": "$API_ADDRESS"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
END
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE no sandbox starts otherwise, and runc does not say why.
  cat >containerd.toml <<END
version = 2
root = "$STATE/containerd"
state = "/run/containerd"
[grpc]
  address = "$STATE/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/testbed/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNI_PROGRAMS"
    conf_dir = "$STATE/cni"
END
  start containerd containerd --config containerd.toml
}

images() { ctr --address "$STATE/containerd.sock" --namespace k8s.io "$@"; }

start_node() {
  wait_for 20 'containerd to answer' containerd images version || die 'containerd did not start'
  images images import "$(cat pause-image)" >logs/pause-image.log
  # failCgroupV1: machines with version 1 are old, not unfit. authorization: only the API server has a certificate.
  cat >kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
containerRuntimeEndpoint: unix://$STATE/containerd.sock
address: $API_ADDRESS
readOnlyPort: 0
tlsCertFile: $STATE/pki/kubelet.crt
tlsPrivateKeyFile: $STATE/pki/kubelet.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $STATE/pki/ca.crt}}
authorization: {mode: AlwaysAllow}
clusterDNS: ["$API_ADDRESS"]
clusterDomain: cluster.local
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
serializeImagePulls: false
podLogsDir: $STATE/pod-logs
volumePluginDir: $STATE/volume-plugins
maxPods: 250
END
  start kubelet bin/kubelet --config=kubelet.yaml --kubeconfig=kubelet.kubeconfig --hostname-override=$NODE \
    --root-dir="$STATE/kubelet" --node-ip="$API_ADDRESS"
  # masquerade-all: bridged pods would answer each other directly, past the translation of a service's address.
  start proxy bin/kube-proxy --kubeconfig=proxy.kubeconfig --hostname-override=$NODE --proxy-mode=iptables \
    --cluster-cidr=$POD_CIDR --masquerade-all --conntrack-max-per-core=0
  # cache: as kubeadm sets it; a name asked for too early stays unknown for a while, and clients must bear that.
  cat >Corefile <<END
.:53 {
  bind $API_ADDRESS
  errors
  cache 30
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig $STATE/admin.kubeconfig
    pods insecure
    ttl 30
  }
}
END
  start coredns bin/coredns -conf Corefile
  wait_for 60 "node $NODE to be Ready" 'kubelet containerd proxy coredns' node_ready || die 'the node is not Ready'
}

node_ready() {
  KUBECONFIG=admin.kubeconfig bin/kubectl get node $NODE -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -q True
}
