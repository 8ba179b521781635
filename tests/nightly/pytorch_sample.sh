#!/usr/bin/env bash
# The sample of a plain PyTorch program, manifests/samples/pytorch.yaml, run on this machine by kubectl-ddp with the real
# torchrun of the benchmarks' peer (cmake/fetch.sh peer): two pods become two agents, which meet and train; then once more
# with a rank killed in the middle, and a folder for checkpoints.
#   pytorch_sample.sh BUILD
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CLI=$(realpath "$1")/bin/kubectl-ddp
PATH=${DDP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}/peer/bin:$PATH
command -v torchrun >/dev/null || { echo 'no torchrun: run cmake/fetch.sh peer' >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed "s|/opt/train.py|$ROOT/docker/examples/train.py|" "$ROOT/manifests/samples/pytorch.yaml" >"$work/job.yaml"
cd "$work"

OMP_NUM_THREADS=1 "$CLI" run -f job.yaml --fresh
grep -h 'step 200 on 2 ranks' .ddp/pytorch/logs/* || { echo 'rank 0 did not say how it ended' >&2; exit 1; }
echo 'ok: the sample trains with torchrun, unchanged'
