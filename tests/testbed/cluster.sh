#!/usr/bin/env bash
# A real Kubernetes cluster for tests, of plain processes: no container engine, no registry.
#
#   cluster.sh control-plane STATE [--controllers]   etcd and kube-apiserver on loopback, on free ports. With
#                                 --controllers also kube-controller-manager and kube-scheduler. No root needed.
#   cluster.sh node STATE         the same with controllers, plus a node (containerd, kubelet, kube-proxy,
#                                 CoreDNS) in namespaces of its own (network, processes, mounts). Needs root.
# Both wait until all is ready and print the path of the admin's kubeconfig on stdout, then
#   by default    return; the cluster goes on until `down`
#   --follow PID  return; the cluster ends when process PID does
#   --supervise   stay, and end the cluster on SIGTERM, SIGINT or the death of the calling process
#
#   cluster.sh down STATE                 ends it; the state folder stays, for its logs
#   cluster.sh kill-apiserver STATE       kill -9, and leave it dead
#   cluster.sh restart-apiserver STATE    kill -9 if it lives, start it on the same port, wait until it is ready
#   cluster.sh enter STATE COMMAND...     runs COMMAND in the cluster's namespaces, with KUBECONFIG and PATH set
#   cluster.sh image STATE TAR...         loads image archives into the node
#
# STATE is a folder that does not exist yet, or was left by an earlier run. In it:
#   admin.kubeconfig  ca.crt … in pki/  service-account keys in pki/service-accounts.{key,pub}
#   bin/kubectl       and the other programs, as links     audit.log  every request, one JSON a line
#   logs/NAME.log     pids/NAME (etcd, apiserver, …)       server     the API server's URL
#                     (a node's cluster numbers its processes itself)
# The API server authorises by RBAC. Without controllers nothing schedules pods, collects garbage or makes service
# accounts (their admission is off): a test plays kubelet by patching pods/status.
# Environment: KUBEBUILDER_ASSETS, a folder with etcd, kube-apiserver and kubectl to use instead of building them;
# APISERVER_FLAGS, CONTROLLER_FLAGS, SCHEDULER_FLAGS, more flags for each.
#
# Nothing outlives the supervisor, whatever kills it: its children carry a parent-death signal, and the node's
# namespaces (with their pods, mounts and bridge) die with their first process, which is one of them.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SELF=$HERE/cluster.sh
MARKER=.testbed-state
# shellcheck source=tests/testbed/control_plane.sh
. "$HERE/control_plane.sh"
# shellcheck source=tests/testbed/node.sh
. "$HERE/node.sh"

die() { printf 'cluster.sh: %s\n' "$*" >&2; exit 1; }

# ---- processes of the supervisor -------------------------------------------------------------------------------

declare -A children=()  # pids by name

# start NAME COMMAND...: a child that dies with us; its log goes on where an earlier one ended.
start() {
  local name=$1
  shift
  setpriv --pdeathsig KILL "$@" >>"logs/$name.log" 2>&1 </dev/null &
  children[$name]=$!
  echo $! >"pids/$name"
}
running() { [ -n "${children[$1]:-}" ] && kill -0 "${children[$1]}" 2>/dev/null; }
stop() {  # not gently: the API server drains for up to a minute, and nothing here has data worth keeping
  local pid=${children[$1]:-}
  unset "children[$1]"
  rm -f "pids/$1"
  [ -n "$pid" ] && kill -9 "$pid" 2>/dev/null || return 0
  wait "$pid" 2>/dev/null || true
}

# wait_for SECONDS WHAT NAMES COMMAND...: until COMMAND succeeds; fails at the deadline, or at once when one of
# the processes NAMES (separated by blanks, may be empty) has ended.
wait_for() {
  local deadline=$((SECONDS + $1)) what=$2 names=$3 name
  shift 3
  until "$@" >/dev/null 2>&1; do
    for name in $names; do
      running "$name" || { echo "$name ended while waiting for $what: see $STATE/logs/$name.log" >&2; return 1; }
    done
    [ $SECONDS -lt $deadline ] || { echo "waited in vain for $what" >&2; return 1; }
    sleep 0.05
  done
}

# ---- the supervisor --------------------------------------------------------------------------------------------

# birth PID: when it started, in ticks; fails if it has ended. A zombie has: who should reap it may be waiting for us.
birth() {
  local stat fields
  read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
  read -ra fields <<<"${stat##*) }"  # from the third field on: the name before may have blanks in it
  [[ ${fields[0]} != [ZX] ]] && echo "${fields[19]}"
}

# supervisor: prints the pid of the state folder's living supervisor; a number that was given to another process
# since is not it (its start time differs).
supervisor() {
  local pid born
  [ -f "$STATE/supervisor" ] && read -r pid born <"$STATE/supervisor" && [ "$(birth "$pid")" = "$born" ] && echo "$pid"
}

claim_state() {
  if [ -d "$STATE" ] && [ -n "$(ls -A "$STATE")" ]; then
    [ -e "$STATE/$MARKER" ] || die "$STATE is not empty and no state folder of a test bed: name another one, or empty it"
    down
    rm -rf "$STATE"
  fi
  mkdir -p "$STATE" && cd "$STATE" && mkdir -p logs pids bin && touch "$MARKER"
  echo "$$ $(birth $$)" >supervisor
}

# clean_up: after the last process; logs, audit log and keys stay.
clean_up() {
  leave_no_cgroup
  (cd "$STATE" && rm -rf supervisor ready request.* etcd containerd containerd.sock* kubelet)
}

link_programs() {
  local assets=${KUBEBUILDER_ASSETS:-} name kube=
  for name in etcd kube-apiserver kubectl ${CONTROLLERS:+kube-controller-manager kube-scheduler} ${WITH_NODE:+kubelet kube-proxy}; do
    if [ -x "$assets/$name" ]; then
      ln -s "$(readlink -f "$assets/$name")" "bin/$name"
    else
      [ -n "$kube" ] || kube=$("$HERE/build.sh" kube)
      ln -s "$kube" "bin/$name"
    fi
  done
  [ -n "$WITH_NODE" ] || return 0
  ln -s "$("$HERE/build.sh" coredns)" bin/coredns
  "$HERE/images.sh" pause >pause-image
}

follows() { [ -z "$FOLLOW" ] || birth "$FOLLOW" >/dev/null; }

# pause SECONDS: a sleep that a signal ends. (Not `read -t`: bash 5.2 crashes when a trap exits from within it.)
pause() {
  sleep "$1" >/dev/null 2>&1 &
  wait $! || true
}

# serve: carries out requests, files that `request` leaves, until it is killed, or $FOLLOW has ended.
serve() {
  local name
  while follows; do
    for name in kill-apiserver restart-apiserver; do
      [ -e "request.$name" ] || continue
      stop apiserver
      [ $name = kill-apiserver ] || { start_apiserver && wait_for 60 'the API server to be ready again' apiserver apiserver_ready; } || continue
      rm "request.$name"
    done
    pause 0.2
  done
}

supervise() {
  claim_state
  trap 'exit 0' TERM INT HUP
  trap 'for name in "${!children[@]}"; do stop "$name"; done; clean_up' EXIT
  link_programs
  if [ -n "$WITH_NODE" ]; then
    start_namespaces
  else
    control_plane
    touch ready
  fi
  echo "$STATE/admin.kubeconfig"
  if [ -n "$WITH_NODE" ]; then follow_namespaces; else serve; fi
}

# in_background ARGUMENTS...: a supervisor that outlives this command; returns when all is ready.
in_background() {
  local log pid
  log=$(mktemp)
  setsid "$SELF" "$@" --supervise --follow "${FOLLOW:-none}" </dev/null >"$log" 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null && ! { [ -e "$STATE/ready" ] && [ "$(supervisor)" = $pid ]; }; do sleep 0.05; done
  if ! kill -0 $pid 2>/dev/null; then
    cat "$log" >&2
    rm "$log"
    exit 1
  fi
  mv "$log" "$STATE/logs/supervisor.log"
  echo "$STATE/admin.kubeconfig"
}

down() {
  local pid deadline=$((SECONDS + 20))
  [ -e "$STATE/$MARKER" ] || return 0
  while pid=$(supervisor); do
    # It may end between our look and our signal.
    if [ $SECONDS -lt $deadline ]; then kill "$pid"; else kill -9 "$pid"; fi 2>/dev/null || true
    sleep 0.05
  done
  clean_up
}

request() {  # request NAME: has the supervisor do it, and waits for that
  supervisor >/dev/null || die "no cluster runs in $STATE"
  touch "$STATE/request.$1"
  wait_for 65 "the supervisor to $1" '' test ! -e "$STATE/request.$1" || exit 1
}

usage() { sed -n '2,/^set/p' "$SELF" | sed '$d; s/^# \{0,1\}//' >&2; exit 64; }

[ $# -ge 2 ] || usage
command=$1
STATE=$(realpath -m "$2")
CGROUP=testbed-$(sha256sum <<<"$STATE" | cut -c1-12)
shift 2
CONTROLLERS='' WITH_NODE='' FOLLOW='' supervised=''
case $command in
  control-plane | node)
    arguments=("$command" "$STATE" "$@")
    while [ $# -gt 0 ]; do
      case $1 in
        --controllers) CONTROLLERS=yes ;;
        --supervise) supervised=yes FOLLOW=$PPID ;;
        --follow) FOLLOW=${2:?--follow needs a process id}; shift ;;
        *) usage ;;
      esac
      shift
    done
    [ "$FOLLOW" != none ] || FOLLOW=
    [ "$command" = control-plane ] || { use_node; check_node; }
    if [ -n "$supervised" ]; then supervise; else in_background "${arguments[@]}"; fi
    ;;
  inside) use_node; inside ;;
  down) down ;;
  kill-apiserver | restart-apiserver) request "$command" ;;
  enter) enter "$@" ;;
  image)
    for tar in "$@"; do
      (enter ctr --address "$STATE/containerd.sock" --namespace k8s.io images import "$tar" >/dev/null)
    done
    ;;
  *) usage ;;
esac
