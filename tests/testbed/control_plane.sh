# The control plane's processes: etcd, kube-apiserver and, if asked for, the controllers and the scheduler.
# Sourced by cluster.sh, which owns the state folder ($STATE) and is the parent of what is started here.
# shellcheck shell=bash

# certificate NAME CN ORGANISATION [SUBJECT_ALT_NAMES]: pki/NAME.{crt,key}, signed by the cluster's CA.
certificate() {
  local san=()
  [ -z "${4:-}" ] || san=(-addext "subjectAltName=$4")
  openssl req -config pki/openssl.cnf -extensions leaf -x509 -CA pki/ca.crt -CAkey pki/ca.key -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc \
    -keyout "pki/$1.key" -out "pki/$1.crt" -subj "/O=$3/CN=$2" -days 30 "${san[@]}" 2>>logs/openssl.log
}

# kubeconfig NAME: NAME.kubeconfig for the user whose certificate has that name.
kubeconfig() {
  cat >"$1.kubeconfig" <<END
apiVersion: v1
kind: Config
current-context: testbed
clusters:
- name: testbed
  cluster:
    server: $(cat server)
    certificate-authority-data: $(base64 -w0 pki/ca.crt)
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "pki/$1.crt")
    client-key-data: $(base64 -w0 "pki/$1.key")
contexts:
- name: testbed
  context: {cluster: testbed, user: $1}
END
}

make_pki() {  # make_pki ADDRESS
  local names="IP:127.0.0.1,IP:$1,IP:$SERVICE_IP,DNS:localhost" name
  for name in '' .default .default.svc .default.svc.cluster.local; do names+=",DNS:kubernetes$name"; done
  mkdir -p pki
  cat >pki/openssl.cnf <<END
[req]
distinguished_name = none
[none]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
END
  openssl req -config pki/openssl.cnf -extensions authority -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc \
    -keyout pki/ca.key -out pki/ca.crt -subj /CN=testbed-ca -days 30 2>>logs/openssl.log
  certificate apiserver kube-apiserver kubernetes "$names"
  certificate admin admin system:masters
  certificate controller-manager system:kube-controller-manager kubernetes
  certificate scheduler system:kube-scheduler kubernetes
  certificate proxy system:kube-proxy kubernetes
  certificate kubelet "system:node:$NODE" system:nodes "DNS:$NODE,IP:$1"
  openssl ecparam -name prime256v1 -genkey -noout -out pki/service-accounts.key
  openssl ec -in pki/service-accounts.key -pubout -out pki/service-accounts.pub 2>>logs/openssl.log
}

# free_port: prints a port that nobody listens on, below the range that outgoing connections take theirs from.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

start_etcd() {
  local client peer
  client=http://127.0.0.1:$(free_port) peer=http://127.0.0.1:$(free_port)
  echo "$client" >etcd-server
  # No fsync: the data is thrown away with the state folder, and tests are several times quicker.
  start etcd bin/etcd --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
}

start_apiserver() {
  local server port extra=()
  server=$(cat server) port=${server##*:}
  # As in envtest: without controllers nobody makes the default service accounts that pods would need,
  # and a loopback address can't be an endpoint of the kubernetes service.
  [ -n "$CONTROLLERS" ] || extra+=(--disable-admission-plugins=ServiceAccount)
  [ -n "$WITH_NODE" ] || extra+=(--endpoint-reconciler-type=none)
  # shellcheck disable=SC2206
  extra+=(${APISERVER_FLAGS:-})
  start apiserver bin/kube-apiserver --etcd-servers="$(cat etcd-server)" \
    --bind-address="$BIND_ADDRESS" --advertise-address="$API_ADDRESS" --secure-port="$port" \
    --service-cluster-ip-range="$SERVICE_CIDR" --allow-privileged=true --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement \
    --client-ca-file=pki/ca.crt --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=pki/service-accounts.pub \
    --service-account-signing-key-file=pki/service-accounts.key \
    --kubelet-preferred-address-types=InternalIP \
    --kubelet-client-certificate=pki/admin.crt --kubelet-client-key=pki/admin.key \
    --audit-policy-file="$HERE/audit-policy.yaml" --audit-log-path=audit.log --audit-log-maxsize=1000 "${extra[@]}"
}

# api PATH: a GET as admin; a fifth of kubectl's cost, which counts in a loop.
api() {
  curl -sS --fail --max-time 5 --cacert pki/ca.crt --cert pki/admin.crt --key pki/admin.key "$(cat server)$1" 2>>logs/curl.log
}

apiserver_ready() { api /readyz >/dev/null && api /api/v1/namespaces/default >/dev/null; }

control_plane() {
  local try
  make_pki "$API_ADDRESS"
  for try in 1 2 3; do  # another process may take a port between our look and our use of it
    echo "https://$API_ADDRESS:${API_PORT:-$(free_port)}" >server
    start_etcd
    start_apiserver
    wait_for 60 'the API server to be ready' 'apiserver etcd' apiserver_ready && running etcd && break
    stop apiserver
    stop etcd
    rm -rf etcd
    [ "$try" -lt 3 ] ||
      die 'the API server did not start'
  done
  for try in admin controller-manager scheduler proxy kubelet; do kubeconfig "$try"; done
  [ -n "$CONTROLLERS" ] || return 0
  # shellcheck disable=SC2086
  start controller-manager bin/kube-controller-manager --kubeconfig=controller-manager.kubeconfig --leader-elect=false \
    --secure-port=0 --service-account-private-key-file=pki/service-accounts.key --root-ca-file=pki/ca.crt \
    --use-service-account-credentials ${CONTROLLER_FLAGS:-}
  # shellcheck disable=SC2086
  start scheduler bin/kube-scheduler --kubeconfig=scheduler.kubeconfig --leader-elect=false --secure-port=0 ${SCHEDULER_FLAGS:-}
  wait_for 30 'the default service account' controller-manager api /api/v1/namespaces/default/serviceaccounts/default ||
    die 'the controllers did not start'
}
