#!/usr/bin/env bash
# The concurrent layers' own tests under sanitizers: address and undefined behaviour together, threads apart.
#   sanitize.sh JOBS
# Only these folders: libtorch is not instrumented, and the rest has no threads of its own.
set -euo pipefail
jobs=$1
folders='operator_(controller|kube|ddpjob)|runtime_(comm|store|rendezvous)'

for preset in asan-ubsan tsan; do
  build=build/$preset
  # What needs libtorch is left out for the thread sanitizer, which would report its uninstrumented locks.
  [ -f $build/build.ninja ] ||
    cmake --preset $preset --log-level=WARNING -DDDP_TORCH="$([ $preset = tsan ] && echo OFF || echo ON)" >/dev/null
  mapfile -t programs < <(ninja -C $build -t targets all | sed -nE "s/^(($folders)(_[a-z_]+)?_test): .*/\1/p")
  echo "$preset: ${programs[*]}"
  nice ninja -C $build -j "$jobs" "${programs[@]}"
  # The random worlds of plan() are one thread's work, and a hundred times as slow when every access is watched.
  left_out='_NOT_BUILT$|^layers'
  [ $preset != tsan ] || left_out+='|^PlanRandom'
  ctest --test-dir $build -j "$jobs" --output-on-failure --no-tests=error -L '^(unit|fault)$' -E "$left_out"
done
