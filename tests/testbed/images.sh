#!/usr/bin/env bash
# Builds container images from Dockerfiles, without a container engine or a registry.
#   images.sh pause|operator|runtime|runtime-cuda|foreign|own-trainer...       prints the path of each one's archive (docker-archive)
# An archive lies in $DDP_CACHE/images/ under a hash of all that goes into it, and is built only when it is missing.
# operator, runtime and runtime-cuda take the programs from $INSTALL_TREE (`make install` fills it).
# own-trainer is the example on the runtime's image; the SDK comes from $INSTALL_TREE/../sdk, libtorch's headers from the cache.
# The base, debian:bookworm-slim, is bootstrapped from Debian packages, so that nothing is pulled.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
IMAGES=${DDP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}/images
VERSION=$(sed -n 's/^project(ddp VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")
BASE=docker.io/library/debian:bookworm-slim
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot

say() { printf '[images] %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
buildah() { command buildah --root "$IMAGES/storage" --runroot "$IMAGES/run" "$@"; }

base() {
  buildah inspect --type image "$BASE" >/dev/null 2>&1 && return
  say 'bootstrapping the base image from Debian packages'
  local folder slim=()
  for folder in doc man locale info lintian; do slim+=("--dpkgopt=path-exclude=/usr/share/$folder/*"); done
  mmdebstrap --quiet --variant=minbase "${slim[@]}" bookworm "$IMAGES/base.tar" >&2
  local container
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$IMAGES/base.tar" / >&2
  buildah commit --quiet --rm "$container" "$BASE" >&2
  rm "$IMAGES/base.tar"
}

# describe NAME: sets what an image is made of: its name, Dockerfile, context and the files the hash covers.
describe() {
  arguments=()
  case $1 in
    pause)
      image=localhost/testbed/pause:1 file=$HERE/pause.Dockerfile
      files=("$(readlink -f "$(command -v busybox)")")
      context=$(dirname "${files[0]}")
      ;;
    foreign)
      image=localhost/testbed/foreign:1 file=$ROOT/tests/e2e/foreign.Dockerfile
      context=$ROOT/tests/e2e
      files=("$context/foreign.py")
      ;;
    own-trainer)
      image=docker.io/library/own-trainer:1.0.0 file=$ROOT/docker/examples/own-trainer.Dockerfile context=$ROOT
      : "${INSTALL_TREE:?must name the folder beside which the SDK is installed, as sdk}"
      files=("$INSTALL_TREE/../sdk" "$ROOT/runtime/examples" "$INSTALL_TREE/bin/ddp-worker")
      arguments=(--build-arg "SDK=$(realpath --relative-to="$ROOT" "$INSTALL_TREE/../sdk")" --volume "$IMAGES/../torch:/torch:ro")
      ;;
    operator | runtime | runtime-cuda)
      image=docker.io/library/ddp-$1:$VERSION file=$ROOT/docker/$1.Dockerfile context=$ROOT
      : "${INSTALL_TREE:?must name the folder with the installed programs}"
      files=("$INSTALL_TREE"/bin/ddp-operator "$INSTALL_TREE"/bin/kubectl-ddp)
      [ "$1" = operator ] || files=("$INSTALL_TREE"/bin/{ddp-worker,ddp-train} "$INSTALL_TREE"/lib "$INSTALL_TREE"/share/ddp)
      files+=("$ROOT"/docker/*.sh)
      arguments=(--build-arg "INSTALL_TREE=$(realpath --relative-to="$ROOT" "$INSTALL_TREE")" --build-arg "VERSION=$VERSION"
        --build-arg "REVISION=$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || echo unknown)")
      ;;
    *) die "no image is named $1: pause, operator, runtime, runtime-cuda, foreign, own-trainer" ;;
  esac
}

# fingerprint: of all that the described image is made of, so that an equal tree of another clone is not built again.
fingerprint() {
  { cat "$file" "${BASH_SOURCE[0]}" && find "${files[@]}" -type f -print0 | sort -z | xargs -0 cat; } | sha256sum | cut -c1-16
}

build() {
  local archive below
  if [ "$1" = own-trainer ]; then
    below=$(build runtime)
    buildah pull --quiet "docker-archive:$below" >&2  # what lies in the store may be older
  fi
  describe "$1"
  archive=$IMAGES/$1-$(fingerprint).tar
  if [ ! -f "$archive" ]; then
    ! grep -q '^FROM .*BASE' "$file" || base
    say "building $image"
    arguments+=(--quiet --pull-never --layers --file "$file")
    # What is installed from packages is kept under a name; other layers would pile up, a whole copy of the image each.
    ! grep -q ' AS system$' "$file" || buildah bud "${arguments[@]}" --target system --tag "localhost/$1-system" "$context" >&2
    buildah bud "${arguments[@]}" --tag "$image" "$context" >&2
    buildah rm --all >/dev/null  # what a build that failed has left
    buildah rmi --prune >/dev/null
    rm -f "$IMAGES/$1"-????????????????.tar
    buildah push --quiet "$image" "docker-archive:$archive.new:$image" >&2
    mv "$archive.new" "$archive"
  fi
  echo "$archive"
}

[ $# -gt 0 ] || die 'name the images to build: pause, operator, runtime, runtime-cuda, foreign, own-trainer'
mkdir -p "$IMAGES"
exec 9>"$IMAGES/.lock"
flock 9
for name in "$@"; do build "$name"; done
